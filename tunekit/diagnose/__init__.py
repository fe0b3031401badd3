"""Checks that report what is wrong, or worth knowing, as findings. Pure.

registry      `@check`: the code, severities and sentence of each finding; --codes and --ignore use it
machine       a machine before training; its checks are in gpus, host, software, storage
data_layout   arrays as a loader reads them; places: where to keep them
loop          a measured loop; its checks are in loop_data, loop_samples, loop_device, loop_figures
attribution   where a step's time goes and what limits it; gains: how much fixing that could bring
run           a whole search
scaling       a training on several processes
plan          machines to rent
recording     a real training
policy        thresholds of the checks
compare       runs side by side, in pairs (run_pair); confounders: what distorts the comparison of two runs

To add a finding, write one decorated function in its subject's file, and its row in that file's test.
"""

# Importing registers all checks, in the order in which findings of the same severity are shown.
# isort: off
from tunekit.diagnose import (  # noqa: F401
    software,
    gpus,
    host,
    storage,
    data_layout,
    loop_data,
    loop_samples,
    loop_device,
    loop_figures,
    run,
    scaling,
    plan,
    confounders,
    recording,
)
