"""Tasks whose causal model is written by hand: variables, what they read, and mechanisms in numpy."""
