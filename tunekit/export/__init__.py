"""Files that drop into a training config."""
