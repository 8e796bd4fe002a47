"""Training: sampled interventions, losses, one objective, validation, certificates."""
