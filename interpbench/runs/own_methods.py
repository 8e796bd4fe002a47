"""Makes a method in a user's own file a choice like those in `configs/method/`: `method=my_file.py:name`."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from interpbench.core.errors import DiscoveryError
from interpbench.core.own import is_own


def offer_methods(overrides: Sequence[str]) -> list[str]:
    """Imports the files of a user's methods that overrides name, and offers Hydra these and their settings.

    Returns:
        The overrides, with absolute paths of such files made relative, as Hydra wants them.

    Raises:
        InterpBenchError: if a file cannot be imported, or what it declares is no method.
    """
    return [_offer(override) for override in overrides]


def _offer(override: str) -> str:
    key, _, choices = override.partition("=")
    if key != "method" or not any(map(is_own, choices.split(","))):
        return override
    from hydra.core.config_store import ConfigStore

    from interpbench.discovery.method import method_name, methods

    offered: list[str] = []
    for choice in choices.split(","):
        if is_own(choice):
            if Path(choice).is_absolute():
                choice = os.path.relpath(choice)
            settings = _settings(choice, methods()[method_name(choice)])
            group, _, name = f"method/{choice}".rpartition("/")
            node = {"name": choice, **settings}
            ConfigStore.instance().store(group=group, name=name, node=node, package="method")
        offered.append(choice)
    return f"method={','.join(offered)}"


def _settings(choice: str, made: type[Any]) -> dict[str, Any]:
    """Returns a method's settings with their defaults, or `???` for all if one has none."""
    if not dataclasses.is_dataclass(made):
        raise DiscoveryError(f"{choice} is not a dataclass; put @dataclass(frozen=True) below @method")
    try:
        return TypeAdapter(made).dump_python(made(), mode="json")
    except (TypeError, ValidationError):
        return {field.name: "???" for field in dataclasses.fields(made)}
