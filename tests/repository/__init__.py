"""Tests of the repository itself: its rules, README, wheel, benchmarks and golden numbers."""
