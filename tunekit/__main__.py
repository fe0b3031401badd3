"""`python -m tunekit`."""

from tunekit.cli.main import run

run()
