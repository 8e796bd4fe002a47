"""Tests of `interpbench/reports`."""
