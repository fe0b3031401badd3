"""Every test's child processes compute on one thread: spinning threads on a busy machine prove nothing."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
