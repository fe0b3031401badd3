"""Trials of a training script, run and saved: a search, a loop profile, what fits which GPU.

folder     the run on disk: lock, trial records, run.json
session    trials into a folder, one by one, run or refused, saved and shown: what the walks below build on
search     the phases of a search: preparation (the baseline, the space), trials, confirmation
store      which job of a search comes next: this host's, or one of a queue that hosts share (shared)
profile    one config looked into, beside others; ablation: what each optimisation brings
fits       one traced trial, then what it predicts of GPUs
predicted  the same within a search, of the GPU that is asked for and the one that is here
assemble   trial records to a whole Run: tiers, scaling, findings (pure)
"""
