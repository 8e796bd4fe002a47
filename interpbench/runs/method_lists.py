"""`method=a,b`, `method=all` and `checkpoint=a,b` on the command line, which Hydra takes for sweeps.

`method=exact+direction=both` is a method with settings of its own, alone or in a list.
"""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from interpbench.core.config import Settings
from interpbench.core.errors import ConfigError
from interpbench.core.text import shown
from interpbench.discovery.known_methods import check_method
from interpbench.runs.overrides import listed

MANY = "all"
OWN = "+"
"""What stands between a method and each of its settings."""


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
        elif key == "method" and OWN in value:
            name, *told = value.split(OWN)
            _ = with_settings(value)
            expanded += [f"method={name}", *(f"method.{each}" for each in told)]
        elif key == "checkpoint" and len(names) > 1:
            expanded.append(f"checkpoint={_listed(names)}")
        else:
            expanded.append(argument)
    return expanded


def with_settings(text: str) -> tuple[str, Settings]:
    """Returns the name of a method and the settings behind it, as in `eap_ig+steps=10+direction=both`.

    Raises:
        ConfigError: if what stands behind a + is not a setting with its value.
    """
    name, *told = text.split(OWN)
    settings: Settings = {}
    for each in told:
        key, equals, value = each.partition("=")
        if not equals:
            raise ConfigError(
                f"method {shown(text)!r}: write {name}+setting=value, as in exact+direction=both"
            )
        settings[key] = _value(value)
    return name, settings


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check(names: Sequence[str]) -> None:
    for name in names:
        if name != MANY:
            check_method(*with_settings(name))


def _listed(names: Sequence[str]) -> str:
    quoted = (f"'{name}'" if "[" in name or OWN in name else name for name in names)
    return f"[{','.join(quoted)}]"
