"""What every other part may use: errors, registries, configuration, seeds, files, logging."""
