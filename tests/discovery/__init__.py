"""Tests of `interpbench/discovery`."""
