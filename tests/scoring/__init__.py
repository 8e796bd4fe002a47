"""Tests of `interpbench/scoring`."""
