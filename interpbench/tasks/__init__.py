"""Tasks: a program or causal model, its domain, its data; and what a discovery method sees of them."""
