"""The programs, in groups: one decorated function a task."""
