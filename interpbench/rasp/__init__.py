"""RASP programs: as causal models, as placed variables, as compiled weights."""
