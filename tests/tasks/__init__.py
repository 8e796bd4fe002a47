"""Tests of `interpbench/tasks`."""
