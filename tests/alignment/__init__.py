"""Tests of `interpbench/alignment`."""
