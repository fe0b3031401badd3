"""What this machine and its GPU really offer: profiles, detection, limits."""
