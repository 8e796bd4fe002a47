"""Our methods compared with the published code, on the same weights and inputs, tool by tool.

A module here names the published repository and commit that it was made for, has `compare`, which asks that
code and returns rows of agreement, and a worker: a script that runs in an environment that has the published
code and none of this project. `benchmarks.compare_published` runs them all.
"""
