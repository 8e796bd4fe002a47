"""The commands that list and show what there is: tasks, methods, a task's circuit; and the demonstration."""

from argparse import Namespace
from pathlib import Path

from interpbench.core.console import WIDE, console
from interpbench.core.errors import ConfigError, UnknownNameError
from interpbench.core.files import check_file, check_writable
from interpbench.runs.entry import complain
from interpbench.runs.subcommand import argument, subcommand
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.groups import KINDS, files


@subcommand(
    "tasks",
    "list all tasks, or those of a kind",
    argument("--group", "--family", help="only those of a group, as in counting or nontrivial+depth:3-"),
    argument("--min-edges", type=int, default=0, help="only those with so many required q/k/v edges"),
    argument("--causal", action="store_true", help="only those with causal attention"),
    argument("--write", action="store_true", help="measure all tasks; write records, docs/tasks.md"),
)
def _tasks(arguments: Namespace) -> int:
    from interpbench.runs.measure_tasks import write_records
    from interpbench.runs.show import show_tasks

    if arguments.write:
        write_records()
    else:
        show_tasks(console(WIDE), arguments.group, arguments.min_edges, arguments.causal)
    return 0


@subcommand("methods", "list all discovery methods and their settings")
def _methods(_: Namespace) -> int:
    from interpbench.runs.methods import list_methods

    list_methods(console(WIDE))
    return 0


@subcommand(
    "configs",
    "write configs/ and what is stored of methods from the classes that declare them",
    argument("--check", action="store_true", help="write nothing; say which files are not what these say"),
)
def _configs(arguments: Namespace) -> int:
    from interpbench.runs.generated_files import stale_files, write_files

    if not arguments.check:
        write_files()
        return 0
    stale = stale_files()
    return complain(f"`make configs` would change {', '.join(map(str, stale))}", 1) if stale else 0


@subcommand(
    "show",
    "print a task's program, domain, circuit and truth states",
    argument("task", help="name or published number, or path/to/file.py:name of one of your own"),
    argument(
        "--png",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw the circuit; runs/pictures/NAME.png without FILE",
    ),
    argument("--gates", action="store_true", help="how the inputs of nodes are joined: AND, OR, ADDER"),
)
def _show(arguments: Namespace) -> int:
    try:
        name, png = get_task(arguments.task).name, arguments.png
    except UnknownNameError:
        if arguments.task not in {*KINDS, *files()}:
            raise
        listed = f"`interpbench tasks --group {arguments.task}` lists them"
        raise ConfigError(f"{arguments.task} is a group of tasks: {listed}") from None
    picture = None if png is None else Path(png or f"runs/pictures/{name}.png")
    if picture is not None:
        check_file(picture)
    from interpbench.runs.show import show_task

    show_task(console(WIDE), arguments.task, picture, arguments.gates)
    return 0


@subcommand(
    "capacity",
    "measure what single heads and MLPs of a task's network can compute",
    argument("task", help="name or published number, or path/to/file.py:name of one of your own"),
    argument("--d-model", type=int, help="another width of the residual stream than the task's own"),
    argument("--d-head", type=int, help="another width of heads"),
    argument("--d-mlp", type=int, help="another width of MLPs"),
    argument("--steps", type=int, default=3000, help="steps of training for each node (3000)"),
    argument("--seed", type=int, default=0, help="seed of weights and draws (0)"),
)
def _capacity(arguments: Namespace) -> int:
    from interpbench.runs.show_capacity import show_capacity

    widths = {name: getattr(arguments, name) for name in ("d_model", "d_head", "d_mlp")}
    enough = show_capacity(console(WIDE), arguments.task, widths, arguments.steps, arguments.seed)
    return 0 if enough else 1


@subcommand(
    "demo",
    "train frac_prevs, score three methods on it, write a report",
    argument("--out", default="runs/demo", help="folder for the report"),
)
def _demo(arguments: Namespace) -> int:
    check_writable(Path(arguments.out))
    from interpbench.runs.demo import demo

    return 0 if demo(arguments.out) else 1
