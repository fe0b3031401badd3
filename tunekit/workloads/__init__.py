"""Built-in training scripts, written as a user would write them and run as a command."""
