"""Tests of `interpbench/causal`."""
