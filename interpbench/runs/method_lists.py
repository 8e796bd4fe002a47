"""`method=a,b`, `method=all` and `checkpoint=a,b` on the command line, which Hydra takes for sweeps.

`method=exact+direction=both` is a method with settings of its own, alone or in a list.
"""

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

from interpbench.core.config import Settings
from interpbench.core.errors import ConfigError
from interpbench.core.text import shown
from interpbench.discovery.known_methods import check_method
from interpbench.runs.overrides import listed

MANY = "all"
_SETTING = re.compile(r"\+(?=[A-Za-z_]\w*=)")
"""Where the name of a method ends, and its settings begin."""


def expand(arguments: Sequence[str]) -> list[str]:
    """Rewrites comma lists and `method=all` as the lists that `configs/evaluate.yaml` knows; sweeps stay.

    `examples_of.` takes any method: the configuration names none, so that Hydra wants a + before it.

    Raises:
        UnknownNameError: for a method that is neither registered nor, by its path, a user's.
        ConfigError: for settings that are said in a wrong way.
    """
    arguments = [
        f"+{argument}" if argument.startswith("examples_of.") else argument for argument in arguments
    ]
    if any(argument in ("-m", "--multirun") for argument in arguments):
        for argument in arguments:
            if argument.startswith("method=") and _SETTING.search(argument):
                raise ConfigError(f"{shown(argument)} is a list; with -m say method=… method.setting=a,b")
        return arguments
    expanded: list[str] = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        names = listed(value.strip("[]"))
        if key == "method" and MANY in names:
            names = [MANY, *filter(_SETTING.search, names)]
        if key == "method" and (names == [MANY] or len(names) > 1):
            _check(names)
            expanded.append(f"methods={MANY if names == [MANY] else _listed(names)}")
        elif key == "method" and len(names) == 1 and _SETTING.search(names[0]):
            _check(names)
            name, *told = _SETTING.split(names[0])
            expanded += [f"method={name}", *(f"method.{each}" for each in told)]
        elif key == "methods" and _SETTING.search(value):
            _check(names)
            expanded.append(f"methods={_listed(names)}")
        elif key == "checkpoint" and len(names) > 1:
            expanded.append(f"checkpoint={_listed(names)}")
        else:
            expanded.append(argument)
    return expanded


def without_settings(text: str) -> tuple[str, str]:
    """Returns the name of a method, and the text of the settings behind it, with what stands in between."""
    found = _SETTING.search(text)
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def with_settings(text: str) -> tuple[str, Settings]:
    """Returns the name of a method and the settings behind it, as in `eap_ig+steps=10+direction=both`.

    Raises:
        ConfigError: if one is said twice, or behind `all`.
    """
    name, *told = _SETTING.split(text)
    if name == MANY and told:
        raise ConfigError(f"{shown(text)}: all is every method; name those that are to have settings")
    settings: Settings = {}
    for key, _, value in (each.partition("=") for each in told):
        if key in settings:
            raise ConfigError(f"method {name}: {key} is said twice")
        settings[key] = _value(value)
    return name, settings


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _check(names: Sequence[str]) -> None:
    for name, settings in map(with_settings, names):
        if name != MANY:
            check_method(name, settings)


def _listed(names: Sequence[str]) -> str:
    quoted = (f"'{name}'" if "[" in name or _SETTING.search(name) else name for name in names)
    return f"[{','.join(quoted)}]"
