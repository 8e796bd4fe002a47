"""Tests of `interpbench/core`."""
