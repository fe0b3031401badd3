"""What a run's figures show: points, bars and cells with their texts, computed once. Pure; nothing is drawn.

charts        all of a run, in their order; each as a table
gains  throughput  loader_ram  memory  history   the charts of one subject each
trials        the baseline and the tiers, each config once; which trials there is room for; a point's texts
"""
