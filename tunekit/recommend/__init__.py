"""From measured trials to advice: tiers, learning rate, scaling. Pure functions on records."""
