"""The base of all other packages: errors, registries, configuration, estimates, seeds, files, metrics."""
