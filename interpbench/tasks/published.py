"""The widths of networks of the published InterpBench (Gupta et al. 2024), for comparisons.

They are those of the network that Tracr compiles, divided by a ratio: for some tasks d_model is divided, for
the others d_head. Programs without attention have d_head = 1 in the compiled network, and so get d_model = 4.
"""

from typing import NamedTuple

from interpbench.tasks.task import RaspTask

RATIO = 2.0
"""The ratio of tasks that have no other."""
RATIOS = {
    **{5: 1.8, 6: 1.2, 7: 1.5, 18: 1.6, 21: 1.3, 23: 1.5, 24: 1.2, 25: 1.5},
    **{34: 1.5, 35: 3.0, 36: 2.5, 37: 2.2},
}
"""The ratios of tasks, by the task's number in the published InterpBench."""
RESIDUAL = {5, 7, 9, 18, 21, 22, 23, 25, 26, 28, 29, 34, 35, 36, 37}
"""The numbers of the tasks for which d_model is divided by the ratio instead of d_head."""


class Widths(NamedTuple):
    """The widths of a network, and the spread of its initial weights.

    Attributes:
        d_model: the width of the residual stream.
        d_head: the width of a head.
        d_mlp: the width of an MLP's hidden layer.
        init_std: the standard deviation of initial weights; None for the default.
    """

    d_model: int
    d_head: int
    d_mlp: int
    init_std: float | None


def published_widths(task: RaspTask, n_heads: int) -> Widths:
    """Returns the published widths of a task's network with `n_heads` heads in each layer."""
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
