"""The programs, in families: one decorated function a task."""
