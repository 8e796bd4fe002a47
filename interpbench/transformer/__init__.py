"""A small transformer that runs many rows at once, each with interventions of its own (the kernel)."""
