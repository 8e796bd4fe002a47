"""Scores against the truth: how well a ranking separates required from forbidden."""
