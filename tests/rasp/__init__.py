"""Tests of `interpbench/rasp`."""
