"""Studies of linearization: cells, their minutes, what was predicted, and the page of results."""
