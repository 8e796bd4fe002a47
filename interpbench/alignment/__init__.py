"""Alignment of variables with nodes, and the ground truth that follows from it."""
