"""Regimes: harder settings of a task, in which methods of discovery are known or expected to be misled."""
