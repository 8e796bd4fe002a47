"""Tests of `interpbench/transformer`."""
