"""What is fast because no weight of a trained network gets a gradient, and what stays is not run."""
