"""The search: pure modules that say what to try, and the doing ones that try it and save.

Pure: `records` are the trials so far, the baseline's first; `host` is the share of the machine that one rank
can use; `space` the knobs with their values.

space        which knobs can be searched here with which values; knob_access: how each reaches the loop
feasibility  which configs run here at all
acquisition  which config to try next, by the throughput model; study: the same as an Optuna study
stopping     when no further trial is worth its time, and when one is given up
budget       what the time left has room for; confirm: rounds of finalists and baseline
ablation     configs side by side, and what each optimisation brings
assemble     trial records to a whole Run; explain: why its configs are as fast as they are

Doing:

folder       the run on disk: lock, trial records, run.json
session      trials into a folder, run or refused, saved and shown
search       the walk from baseline to recommendation; profile_walk, fits_walk: those of other verbs
predicted    what the first trial's own steps say of GPUs
"""
