"""The vocabulary of circuits: nodes, readers, edges, their names, graphs, truth, scores."""
