"""Overrides that are shorter than Hydra's: `task=ioi task.tokenizer=gpt2 regime=alive alignment.io=m0`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import product

from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.core.setting_docs import setting_docs
from interpbench.core.text import shown
from interpbench.tasks.family import REGIME, with_parameters
from interpbench.tasks.regimes.regime import regimes

_BARE = re.compile(r"(?<![^,])[^,'\"()\[\]]+(?:\[[^\[\]'\"]*\][^,'\"()\[\]]*)+")
"""A name with brackets, of a task or a folder, that nobody has quoted."""
_NAMES = re.compile(r"""'[^']*'|"[^"]*"|[^,]+""")


def hydra_overrides(overrides: Sequence[str]) -> list[str]:
    """Returns what Hydra takes.

    Names in brackets are quoted. `task.<parameter>=`, `regime=` and the dials of the last regime,
    `regime.<dial>=`, become part of the names of the tasks, each of several values of each of them;
    `regime=redundant+noisy` is two regimes, one after the other. A variable of `alignment` is added to a
    configuration that names none.

    Raises:
        ConfigError: for parameters or regimes of no task, or dials of no regime.
    """
    split = [each.partition("=") for each in overrides]
    told = [(key, listed(value) or [""]) for key, _, value in split]
    parameters, dials = (
        {key.removeprefix(start): values for key, values in told if key.startswith(start)}
        for start in ("task.", f"{REGIME}.")
    )
    combinations = _combinations([value for key, _, value in split if key.lstrip("+") == REGIME])
    if dials and combinations is None:
        key = next(iter(dials))
        having = [name for name, kind in regimes().items() if key in {doc.name for doc in setting_docs(kind)}]
        if not having:
            raise ConfigError(f"regime.{key} is a dial of no regime{did_you_mean(key, _dials())}")
        how = f"say which, as in regime={having[0]} regime.{key}=…"
        raise ConfigError(f"regime.{key} is a dial of a regime: {how}")
    named = False
    found: list[str] = []
    for override in overrides:
        key, equals, value = override.partition("=")
        if key in ("task", "checkpoint", "start"):
            value = _BARE.sub(r"'\g<0>'", value)
        if key == "task" and (parameters or combinations):
            named = True
            tasks = [
                made
                for task in listed(value)
                for values in product(*parameters.values())
                for made in _in_regimes(
                    with_parameters(task, dict(zip(parameters, values))), combinations, dials
                )
            ]
            value = ",".join(f"'{task}'" for task in tasks)
        if not key.startswith(("task.", f"{REGIME}.")) and key.lstrip("+") != REGIME:
            found.append(f"{'+' if key.startswith('alignment.') else ''}{key}{equals}{value}")
    if not named and parameters:
        key = next(iter(parameters))
        raise ConfigError(f"task.{key} is a parameter of a task: say which, as in task=ioi task.{key}=…")
    if not named and combinations:
        first = combinations[0]
        instead = f"say which, as in task=hist {REGIME}=alive"
        if any(key == "checkpoint" for key, _ in told):
            chosen = f"checkpoint=regime:{first.partition('+')[0]}"
            instead = f"models are chosen by {chosen}, or by the task's name"
        raise ConfigError(f"{REGIME}={first} is of a task: {instead}")
    return found


def _dials() -> list[str]:
    """Returns the names of the dials of all regimes."""
    return [doc.name for kind in regimes().values() for doc in setting_docs(kind)]


def _combinations(values: Sequence[str]) -> list[str] | None:
    """Returns the combinations of regimes that are told; None if none is.

    Raises:
        ConfigError: if they are told twice, or in another way than `alive,redundant+noisy`.
    """
    if len(values) > 1:
        raise ConfigError(f"regime is said twice; regime={'+'.join(values)} is both, one after the other")
    if not values:
        return None
    told = shown(f"{REGIME}={values[0]}")
    found = ["+".join(part.strip() for part in each.split("+")) for each in listed(values[0])]
    if "[" in values[0]:
        raise ConfigError(f"{told!r}: write regime=alive,rare, with -m, or alive+rare for both at once")
    if dial := next((each for each in found if "=" in each), None):
        raise ConfigError(f"{told!r}: the dial is regime.{dial}")
    if not found or any("" in each.split("+") for each in found):
        raise ConfigError(
            f"{told!r} names no regime behind or before a +" if found else f"{told!r}: say which"
        )
    return found


def _in_regimes(
    task: str, combinations: Sequence[str] | None, dials: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Returns the names of a task in each combination of regimes with each value of the dials."""
    if combinations is None:
        yield task
        return
    for combination in combinations:
        name, parts = task, combination.split("+")
        for each in parts:
            name = with_parameters(name, {REGIME: each})
        _check_dials(name, parts, dials)
        for values in product(*dials.values()):
            yield with_parameters(name, dict(zip(dials, values)))


def _check_dials(name: str, parts: Sequence[str], dials: Mapping[str, Sequence[str]]) -> None:
    """Checks that `regime.<dial>=`, which turns a dial of the last regime, is not meant for an earlier one.

    Raises:
        ConfigError: if it is; the message says how the dial of an earlier regime is written.
    """
    known = {
        each: [field.name for field in fields(regimes()[each])]  # pyright: ignore[reportArgumentType]
        for each in parts
        if each in regimes()
    }
    for dial in (dial for dial in dials if parts[-1] in known and dial not in known[parts[-1]]):
        if owner := next((each for each in parts if dial in known.get(each, ())), None):
            told = f"{REGIME}={owner}"
            meant = name.replace(told, f"{told},{dial}={dials[dial][0]}", 1)
            raise ConfigError(
                f"{REGIME}.{dial} would turn a dial of the last regime, {parts[-1]}, which has no {dial}; "
                f"for {owner}, write \"task='{meant}'\""
            )


def listed(value: str) -> list[str]:
    """Returns the values that a list with commas holds, without quotes; commas in quotes are theirs."""
    return [text.strip().strip("'\"") for text in _NAMES.findall(value) if text.strip()]
