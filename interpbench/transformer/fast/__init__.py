"""Faster runs of trained networks: weights get no gradient, and what no patch can change is not computed."""
