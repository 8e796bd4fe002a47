"""Circuits as values: nodes, readers, edges and their names; graphs, ground truth, scores, certificates."""
