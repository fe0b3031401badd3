"""Views of a saved run: the numbers once, then drawings of them."""
