"""The search: space, proposals, budget, confirmation, and the run folder that they write.

space      which knobs can be searched here, and why the others can't
guesses    what a good engineer would try first
study      Optuna behind ask and tell
folder     the run on disk: lock, trial records, run.json
assemble   trial records -> a whole Run (pure)
confirm    finalists and baseline in fresh interleaved processes
search     the walk from baseline to recommendation
"""
