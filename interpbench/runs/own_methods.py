"""Makes a method in a user's own file a choice like those in `configs/method/`: `method=my_file.py:name`."""

import dataclasses
from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from interpbench.core.config import Settings
from interpbench.core.errors import DiscoveryError
from interpbench.core.user_code import import_own, is_own
from interpbench.runs.method_lists import without_settings


def offer_methods(overrides: Sequence[str]) -> list[str]:
    """Imports the files of a user's methods that overrides name, and offers Hydra these and their settings.

    Returns:
        The overrides, with files and names replaced by the names alone.

    Raises:
        InterpBenchError: if a file cannot be imported, or what it declares is no method.
    """
    return [_offer(override) for override in overrides]


def _offer(override: str) -> str:
    key, _, choices = override.partition("=")
    if key != "method" or not any(map(is_own, choices.split(","))):
        return override
    from hydra.core.config_store import ConfigStore

    for choice in filter(is_own, choices.split(",")):
        import_own(without_settings(choice)[0])  # first, as importing methods takes torch
    from interpbench.discovery.method import method_name, methods

    names: list[str] = []
    for choice, told in map(without_settings, choices.split(",")):
        name = method_name(choice)
        names.append(f"{name}{told}")
        if is_own(choice):
            node = {"name": name, **_settings(choice, methods()[name])}
            ConfigStore.instance().store(group="method", name=name, node=node)
    return f"method={','.join(names)}"


def _settings(choice: str, made: type[object]) -> Settings:
    """Returns a method's settings with their defaults, or `???` for all if one has none."""
    if not dataclasses.is_dataclass(made):
        raise DiscoveryError(f"{choice} is not a dataclass; put @dataclass(frozen=True) below @method")
    try:
        return TypeAdapter(made).dump_python(made(), mode="json")
    except (TypeError, ValidationError):
        return {field.name: "???" for field in dataclasses.fields(made)}
