"""Reports in words: a record becomes a list of blocks, and a terminal, Markdown or a page draws them.

blocks        what reports are made of, and tables that fit their terminal
terminal      blocks -> a terminal of any width
markdown      blocks -> GitHub's Markdown, in as few lines as asked for
html          blocks -> one page that opens without a network; summary_html: what a notebook shows
figures       charts as plotly figures; charts: what a run's figures show

One file a subject, from its record to blocks, pure:
run           a search: its parts in answer, overview, tiers, trials; how each medium arranges them
loop_profile  with loop_time, loop_memory
fits  machine_memory  plan  milestones  comparison  doctor  data  gpus  discovery

text          records as phrases, and the search as it would be typed again
"""
