"""What a run's figures show: points, bars and cells with their texts, computed once. Pure; nothing is drawn.

chart         the kinds of chart, and each as a table
charts        all of a run, in their order
time_breakdown  throughput  loader_ram  memory  history  knobs   one chart each
marked        the baseline and the tiers, each config once
shown_trials  which trials of a long search there is room for
texts         what stands beside a point
"""
