"""What the machine did while a trial ran, seen from the parent."""
