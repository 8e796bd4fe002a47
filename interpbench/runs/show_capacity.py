"""Prints what single nodes of a task's network can compute; see `training.capacity`."""

from collections.abc import Mapping

from rich.console import Console

from interpbench.alignment.alignment import align
from interpbench.checkpoints.record import check_size
from interpbench.circuits.grades import Standard
from interpbench.core.config import convert
from interpbench.core.errors import CheckpointError, ConfigError
from interpbench.reports.tables import rows_table
from interpbench.runs.train_settings import own_settings
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.shapes import shape

MOST_STEPS = 1_000_000


def show_capacity(
    console: Console, name: str, widths: Mapping[str, int | None], steps: int, seed: int
) -> bool:
    """Prints a table of nodes, and returns whether each can compute its variables.

    Args:
        console: where to print.
        name: the task, by name or published number, or where one of your own is.
        widths: widths that differ from the task's own (`d_model`, `d_head`, `d_mlp`); None for its own.
        steps: the number of training steps of each node.
        seed: the seed of initial weights and of draws.

    Raises:
        ConfigError: for widths or a number of steps that are not possible.
    """
    task = get_task(name)
    if not 1 <= steps <= MOST_STEPS:
        raise ConfigError(f"--steps {steps}: 1 to {MOST_STEPS:,} are possible")
    given = {key: value for key, value in widths.items() if value is not None}
    own = own_settings(task.name).get("model") or {}
    cfg = shape(task, convert(ModelSettings, {**own, **given}, "model"))  # type: ignore[dict-item]
    try:
        check_size(cfg)
    except CheckpointError as error:
        raise ConfigError(str(error)) from None
    from interpbench.core.process import prepare_torch
    from interpbench.core.threads import threads
    from interpbench.training.capacity import capacities

    prepare_torch()
    target, missed = Standard().target, set[str]()
    console.print(
        f"{task.name}: d_model {cfg.d_model}, d_head {cfg.d_head}, d_mlp {cfg.d_mlp}; each node alone, "
        f"{steps:,} steps, seed {seed}; {target:.1%} of rows are asked",
        highlight=False,
        markup=False,
    )
    rows: list[dict[str, str | int]] = []
    with threads(1):
        for found in capacities(align(task, cfg.graph), cfg, steps, seed):
            for variable, share in found.right.items():
                values = task.causal_model.variables[variable].values
                if share < target:
                    missed.add("--d-mlp" if found.node.head is None else "--d-head")
                rows.append(
                    {
                        "node": str(found.node),
                        "variable": variable,
                        "values": "number" if values is None else len(values),
                        "rows right": f"{share:.2%}",
                        "verdict": "holds it" if share >= target else f"not learned in {steps:,} steps",
                    }
                )
    console.print(rows_table(rows))
    if missed:
        wider = {"--d-head": 2 * cfg.d_head, "--d-mlp": 2 * cfg.d_mlp}
        tries = [f"--steps {2 * steps}", *(f"{name} {wider[name]}" for name in sorted(missed))]
        console.print(f"To try, as more steps or a wider node may do it: {', '.join(tries)}.")
    return not missed
