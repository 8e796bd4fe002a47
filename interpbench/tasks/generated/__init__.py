"""Tasks whose programs are drawn at random, by a seed."""
