"""Comparisons of this project's methods with the published code of others, on the same weights and inputs.

Each module names the published repository and the commit for which it was made. Its function `compare` runs
both and returns rows of agreement. The published code is run by a worker, which is a script in an environment
that has the published code, and does not have this project. `benchmarks.compare_published` runs all
comparisons.
"""
