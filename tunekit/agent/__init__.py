"""The few stdlib-only modules that ride inside the training process, and where they live.

`site/` is put on PYTHONPATH of the training process, which need not have tunekit installed and may
run another Python (3.9 and newer) and torch (2.1 and newer). Nothing in it imports tunekit, and it
uses torch only after the script itself imported it.
"""

from pathlib import Path

SITE_FOLDER = Path(__file__).parent / "site"
"""The folder whose `sitecustomize` starts the agent."""

REQUEST_VARIABLE = "TUNEKIT_REQUEST"
"""Environment variable that names a trial's request file; without it the agent stays out."""

TRIAL_VARIABLE = "TUNEKIT_TRIAL"
"""Set to 1 in every trial, for scripts that want to know."""
