"""One search by four nodes of a SLURM cluster, started from Python; needs `pip install submitit`.

    python docs/launchers/search_submitit.py [FOLDER]

FOLDER lies on a file system that all nodes see. Run it again with the same one to continue that search.
"""

import sys

import submitit

HOSTS = 4
SHARE = sys.argv[1] if len(sys.argv) > 1 else "runs/search"
COMMAND = ["tunekit", "search", "--share", SHARE, "--budget", "45m", "--", "python", "train.py"]

executor = submitit.AutoExecutor(folder="runs/submitit/%j")
executor.update_parameters(
    name="tunekit",
    timeout_min=60,
    nodes=1,
    tasks_per_node=1,
    gpus_per_node=1,
    cpus_per_task=8,
    mem_gb=64,
    slurm_exclusive=True,
    # SIGTERM ends tunekit cleanly; it does not handle the signal that submitit sends by default.
    slurm_additional_parameters={"signal": "TERM@120"},
)
with executor.batch():  # as one job array
    jobs = [executor.submit(submitit.helpers.CommandFunction(COMMAND)) for _ in range(HOSTS)]
print(*(job.job_id for job in jobs))
