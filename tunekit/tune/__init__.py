"""Which configs to try, in which order and for how long. Pure except for the study's journal.

space        the knobs that can be searched here, with their values; knob_access: how each reaches the loop
feasibility  which configs run here at all
acquisition  which config to try next, by the throughput model; study: the search as an Optuna study
stopping     when no further trial is worth its time, and when to give one up early
budget       what fits the remaining time; confirm: rounds of finalists and baseline
explain      why the configs of a run are as fast as they are
"""
