"""High-level causal models: variables, mechanisms, and runs on many inputs at once with interventions."""

from interpbench.causal.model import CausalModel, Intervention, Read, Variable

__all__ = ["CausalModel", "Intervention", "Read", "Variable"]
