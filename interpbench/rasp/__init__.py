"""RASP programs: their causal models, the nodes that Tracr computes variables at, and compiled networks."""
