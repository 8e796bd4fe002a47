"""Tests of `interpbench/training`."""
