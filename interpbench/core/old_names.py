"""The names that settings had in version 0.1.0, which are still read in this one.

Each old name is reported once, with a warning, on a command line or in a YAML file; not in stored records.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from interpbench.core.config import Unchecked
from interpbench.core.user_code import is_own

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
KEYS: Mapping[str, str] = {
    "objective.readout": "objective.probe",
    "objective.readout_until": "curriculum.probe_until",
    "objective.probe_until": "curriculum.probe_until",
    "objective.attention": "objective.attention_supervision",
    "objective.slack": "objective.bos_slack",
    "objective.quiet": "objective.variance_penalty",
    "objective.outputs_after": "curriculum.outputs_after",
    "objective.strict_after": "curriculum.strict_after",
    "objective.swaps": "draws.swaps",
    "objective.targets": "draws.targets",
    "objective.strata": "draws.strata",
    "objective.own_sources": "draws.own_sources",
    "objective.required": "draws.required",
    "objective.positions": "draws.positions",
    "method.replacement": "method.ablation",
}
"""The old keys of the configuration, `section.key`, each with the new one."""
VALUES: Mapping[str, Mapping[str, str]] = {"method.metric": {"shift": "logit_diff", "divergence": "kl"}}
"""The old values of settings, each with the new one, by the new key of the setting."""
_TOKENIZED = re.compile(r"^(ioi|ioi_next_token|ioi_published_prompts)\[([^=\]]+)\]$")


def renamed(data: Unchecked, stored: bool = False) -> Unchecked:
    """Returns a nested configuration with new names; if a setting has both names, the old one counts.

    Args:
        data: the settings of each section; other values are kept as they are.
        stored: whether the configuration was stored by a run, so that there is no warning.
    """
    found: dict[str, Any] = {
        name: dict(part) if isinstance(part, Mapping) else part  # pyright: ignore[reportUnknownArgumentType]
        for name, part in data.items()
    }
    for old, new in KEYS.items():
        (section, key), (to_section, to_key) = old.split("."), new.split(".")
        if isinstance(found.get(section), dict) and key in found[section]:
            if not isinstance(found.setdefault(to_section, {}), dict):
                continue  # the section is damaged; an error is raised when it is converted
            found[to_section][to_key] = found[section].pop(key)
            _say(stored, old, new)
    for place, names in VALUES.items():
        section, key = place.split(".")
        value = found[section].get(key) if isinstance(found.get(section), dict) else None
        if isinstance(value, str) and value in names:
            found[section][key] = names[value]
            _say(stored, f"{place}={value}", f"{place}={names[value]}")
    return found


def renamed_settings(settings: Unchecked, stored: bool = False) -> Unchecked:
    """Returns the settings of a method with new names; see `renamed`."""
    return renamed({"method": settings}, stored)["method"]


def renamed_record(data: object) -> object:
    """Returns a record or a row of a leaderboard, perhaps damaged, with new names of its method's settings.

    The settings of a user's own method (in a record with the SHA-256 of its file) are kept as they are.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("settings"), Mapping):
        return data
    if isinstance(conditions := data.get("conditions"), Mapping) and conditions.get("source"):
        return data
    return {**data, "settings": renamed_settings(data["settings"], stored=True)}


def renamed_task(name: str, stored: bool = False) -> str:
    """Returns the new name of a task: for `ioi[gpt2]` it is `ioi[tokenizer=gpt2]`."""
    new = _TOKENIZED.sub(r"\1[tokenizer=\2]", name)
    if new != name:
        _say(stored, name, new)
    return new


def takes_old_names(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Returns a decorator that lets a function take arguments by old names: `takes_old_names(old="new")`."""

    def taking(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **arguments: P.kwargs) -> T:
            for old, new in names.items():
                if old in arguments:
                    arguments[new] = arguments.pop(old)
                    _warn(f"{function.__name__}({old}=...)", f"{function.__name__}({new}=...)")
            return function(*args, **arguments)

        return called

    return taking


def renamed_overrides(overrides: Sequence[str]) -> list[str]:
    """Returns overrides of a command line with new names; settings of a user's own method are not renamed."""
    chosen = (override.partition("=")[2] for override in overrides if override.startswith("method="))
    own = any(is_own(choice) for value in chosen for choice in value.split(","))
    return [
        override if own and override.startswith("method.") else _override(override) for override in overrides
    ]


def _override(override: str) -> str:
    name, equals, value = override.partition("=")
    key = name.lstrip("+~")
    if key in KEYS:
        _say(False, key, KEYS[key])
        name, key = name.replace(key, KEYS[key]), KEYS[key]
    for old, new in VALUES.get(key, {}).items():
        if (changed := re.sub(rf"\b{old}\b", new, value)) != value:
            _say(False, f"{key}={old}", f"{key}={new}")
            value = changed
    return f"{name}{equals}{value}"


def _say(stored: bool, old: str, new: str) -> None:
    if not stored:
        _warn(old, new)


@cache
def _warn(old: str, new: str) -> None:
    log.warning("%s is now %s; only this version reads the old name", old, new)
