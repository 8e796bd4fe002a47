"""`method=a,b`, `method=all` and `checkpoint=a,b` on the command line, which Hydra takes for sweeps."""

from collections.abc import Sequence

from interpbench.discovery.known_methods import check_method
from interpbench.runs.overrides import listed

MANY = "all"


def expand(arguments: Sequence[str]) -> list[str]:
    """Rewrites comma lists and `method=all` as the lists that `configs/evaluate.yaml` knows; sweeps stay.

    `examples_of.` takes any method: the configuration names none, so that Hydra wants a + before it.

    Raises:
        UnknownNameError: for a method that is neither registered nor, by its path, a user's.
    """
    arguments = [
        f"+{argument}" if argument.startswith("examples_of.") else argument for argument in arguments
    ]
    if any(argument in ("-m", "--multirun") for argument in arguments):
        return arguments
    expanded: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        names = listed(value.strip("[]"))
        if key == "method" and (value == MANY or len(names) > 1):
            _check(names)
            expanded.append(f"methods={MANY if MANY in names else _listed(names)}")
        elif key == "checkpoint" and len(names) > 1:
            expanded.append(f"checkpoint={_listed(names)}")
        else:
            expanded.append(argument)
    return expanded


def _check(names: Sequence[str]) -> None:
    for name in names:
        if name != MANY:
            check_method(name, {})


def _listed(names: Sequence[str]) -> str:
    quoted = (f"'{name}'" if "[" in name else name for name in names)
    return f"[{','.join(quoted)}]"
