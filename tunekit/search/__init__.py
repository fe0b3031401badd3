"""The search: space, proposals, budget, confirmation, and the run folder that they write.

space      which knobs can be searched here, and why the others can't
guided     which config to try next, by the throughput model
fitting    which configs fit in memory; failures: which run at all
sampler    the proposals as an Optuna sampler
study      Optuna behind ask and tell
predicted  what the first trial's own steps say of GPUs
worth      when no further trial is worth its time; sizes: what a trial looks at besides
folder     the run on disk: lock, trial records, run.json
assemble   trial records -> a whole Run (pure)
confirm    finalists and baseline in fresh interleaved processes
search     the walk from baseline to recommendation; profile_walk, fits_walk: those of other verbs
"""
