"""Views of runs, plans, GPUs and checkups: every shown number and sentence computed once, then drawn.

view          Run -> RunView: texts, tables and charts, pure; its parts: answer, tiers_table, trials_table,
              scaling_table, telemetry, ceilings, prediction, environment, next_steps
charts        what a run's figures show, pure
figures       charts as plotly figures
html          RunView -> one page
markdown      RunView -> under 60 lines; markdown_text: its escapes
summary_html  RunView -> what a notebook shows
comparison    RunComparison -> ComparisonView, pure; comparison_tables; comparison_markdown draws it
comparison    RunComparison -> ComparisonView, pure; comparison_markdown draws it for a pull request
plan          Plan -> PlanView, pure
gpus          profiles -> tables and passages, pure
discovered    what one run of a script showed -> tables, pure
columns       tables that fit their terminal, pure
text          records as phrases, pure
doctor        Checkup -> CheckupView -> a terminal
terminal      views -> a terminal of any width
"""
