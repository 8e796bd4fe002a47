"""The kernel: a small transformer, run on many rows at once, each with its own interventions."""
