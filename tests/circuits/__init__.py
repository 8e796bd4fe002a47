"""Tests of `interpbench/circuits`."""
