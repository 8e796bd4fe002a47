"""Names of settings that had others in version 0.1.0, which are still read in this one.

On a command line or in a YAML file an old name is read with a warning, once; in what is stored, silently.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from interpbench.core.user_code import is_own

log = logging.getLogger(__name__)
KEYS: Mapping[str, Mapping[str, str]] = {
    "objective": {
        "readout": "probe",
        "readout_until": "probe_until",
        "attention": "attention_supervision",
        "slack": "bos_slack",
        "quiet": "variance_penalty",
    },
    "method": {"replacement": "ablation"},
}
"""Section of the configuration to the old names of its keys, each with the new one."""
VALUES: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "method": {"metric": {"shift": "logit_diff", "divergence": "kl"}}
}
"""Section to its keys that have values with other names now, under the keys' new names."""


def renamed(data: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Returns a nested configuration under the new names.

    Args:
        data: section to its settings; it may hold anything else, too.
        stored: whether to be silent.
    """
    return {
        section: renamed_settings(section, settings, stored) if _is_section(section, settings) else settings
        for section, settings in data.items()
    }


def _is_section(section: str, settings: Any) -> bool:
    return section in {*KEYS, *VALUES} and isinstance(settings, Mapping)


def renamed_settings(section: str, settings: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """Returns the settings of a section under the new names; an old name outweighs the new one beside it."""
    found = dict(settings)
    for old, new in KEYS.get(section, {}).items():
        if old in found:
            found[new] = found.pop(old)
            _say(stored, f"{section}.{old}", f"{section}.{new}")
    for key, names in VALUES.get(section, {}).items():
        old = found.get(key)
        if isinstance(old, str) and old in names:
            found[key] = names[old]
            _say(stored, f"{section}.{key}={old}", f"{section}.{key}={names[old]}")
    return found


def renamed_record(data: Any) -> Any:
    """Returns a record or a row of a leaderboard, damaged or not, with its method's settings under new names.

    Those of a user's own method, of which a record has the source, stay.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("settings"), Mapping):
        return data
    if isinstance(conditions := data.get("conditions"), Mapping) and conditions.get("source"):
        return data
    return {**data, "settings": renamed_settings("method", data["settings"], stored=True)}


def renamed_overrides(overrides: Sequence[str]) -> list[str]:
    """Returns overrides of a command line under the new names; settings of a user's own method stay."""
    chosen = (override.partition("=")[2] for override in overrides if override.startswith("method="))
    own = any(is_own(choice) for value in chosen for choice in value.split(","))
    return [
        override if own and override.startswith("method.") else _override(override) for override in overrides
    ]


def _override(override: str) -> str:
    name, equals, value = override.partition("=")
    prefix = name[: len(name) - len(name.lstrip("+~"))]
    section, _, key = name.lstrip("+~").partition(".")
    new = KEYS.get(section, {}).get(key, key)
    if new != key:
        _say(False, f"{section}.{key}", f"{section}.{new}")
        name = f"{prefix}{section}.{new}"
    for old, newer in VALUES.get(section, {}).get(new, {}).items():
        if (changed := re.sub(rf"\b{old}\b", newer, value)) != value:
            _say(False, f"{section}.{new}={old}", f"{section}.{new}={newer}")
            value = changed
    return f"{name}{equals}{value}"


def _say(stored: bool, old: str, new: str) -> None:
    if not stored:
        _warn(old, new)


@cache
def _warn(old: str, new: str) -> None:
    log.warning("%s is now %s; only this version reads the old name", old, new)
