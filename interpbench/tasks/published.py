"""The low-level shapes of the published InterpBench (Gupta et al. 2024), for comparisons.

Its widths are those of the compiled network divided by a ratio of the task's: of the residual stream for some
tasks, of the heads for the others. Programs of MLPs alone have heads of width 1 in the compiled network, so
that they get four residual dimensions.
"""

from typing import NamedTuple

from interpbench.tasks.task import RaspTask

RATIO = 2.0
RATIOS = {
    **{5: 1.8, 6: 1.2, 7: 1.5, 18: 1.6, 21: 1.3, 23: 1.5, 24: 1.2, 25: 1.5},
    **{34: 1.5, 35: 3.0, 36: 2.5, 37: 2.2},
}
RESIDUAL = {5, 7, 9, 18, 21, 22, 23, 25, 26, 28, 29, 34, 35, 36, 37}
"""The tasks, by number, whose residual stream is compressed instead of their heads."""


class Widths(NamedTuple):
    """The widths of a network, and the standard deviation of its initial weights (None: the model's own)."""

    d_model: int
    d_head: int
    d_mlp: int
    init_std: float | None


def published_widths(task: RaspTask, n_heads: int) -> Widths:
    """Returns the widths that the published benchmark gives a task's network of `n_heads` heads a layer."""
    from interpbench.rasp.compile import compile_program
    from interpbench.rasp.weights import sizes

    d_model, d_head = sizes(compile_program(task.program))
    ratio = RATIOS.get(task.legacy_id or 0, RATIO)
    init_std = 0.8 / d_model**0.5
    if task.legacy_id in RESIDUAL:
        d_model = max(2, int(d_model / ratio))
        d_head = max(1, d_model // n_heads)
    else:
        d_head = max(1, int(d_head / ratio))
        d_model = n_heads * d_head
    return Widths(d_model, d_head, 4 * d_model, init_std)
