"""Scores a discovery method on networks with known circuits: `python evaluate.py method=acdc`."""

from interpbench.runs.cli import evaluate

if __name__ == "__main__":
    evaluate()
