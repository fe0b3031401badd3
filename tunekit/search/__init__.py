"""The search: space, study, budget, confirmation."""
