"""Exact causal models: variables, mechanisms, vectorised runs with interventions."""

from interpbench.causal.model import CausalModel, Intervention, Read, Variable

__all__ = ["CausalModel", "Intervention", "Read", "Variable"]
