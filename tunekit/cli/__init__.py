"""The command line: one file per verb; `main` alone maps errors to exit codes."""
