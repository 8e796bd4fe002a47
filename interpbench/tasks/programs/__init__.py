"""RASP programs in groups, one a file; each decorated function is a task."""
