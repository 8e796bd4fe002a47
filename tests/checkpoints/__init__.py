"""Tests of `interpbench/checkpoints`."""
