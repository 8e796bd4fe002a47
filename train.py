"""Trains a transformer to have a known circuit: `python train.py task=frac_prevs`."""

from interpbench.runs.cli import train

if __name__ == "__main__":
    train()
