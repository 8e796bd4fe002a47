"""Tests of `interpbench/runs`."""
