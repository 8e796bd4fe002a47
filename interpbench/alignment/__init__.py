"""The alignment of a program's variables with a network's nodes, and the ground truth that follows."""
