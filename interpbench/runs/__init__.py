"""One file a command: the only layer that knows all others."""
