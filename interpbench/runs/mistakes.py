"""What a wrong command line is answered with: one line that names the value and the nearest valid choice."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from interpbench.core.config import config_folder
from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.core.text import shown

OURS = ("hydra.run.", "hydra.sweep.", "hydra.job.", "hydra.output_subdir")


def check_settings(name: str, settings: Sequence[str]) -> None:
    """Refuses what is no setting, and what cannot be read.

    Raises:
        ConfigError: in one line that names it.
    """
    groups = [folder.name for folder in Path(config_folder()).iterdir() if folder.is_dir()]
    for setting in settings:
        _check_setting(name, setting, groups)


def _check_setting(name: str, argument: str, groups: Sequence[str]) -> None:
    """Refuses a setting that has no key or no value, or whose value Hydra cannot read."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, equals, value = argument.partition("=")
    if argument.startswith("~") and not equals:
        return
    if key.lstrip("+~").startswith(OURS):
        raise ConfigError(f"{shown(key)} cannot be set: runs are written to the folder that out= names")
    if not equals or not key.strip("+~"):
        raise ConfigError(f"{_quoted(argument)} is no setting; write key=value, as in task=hist")
    try:
        parsed = OverridesParser.create().parse_override(argument)
    except HydraException:
        how = f"""{shown(key)}='"{shown(value)}"'"""
        said = f"cannot read {_quoted(argument)}: quote a value with one of []{{}}(),:=$ or a space in it, as"
        raise ConfigError(f"{said} {how}") from None
    if key in groups and not parsed.is_sweep_override():
        chosen: Any = parsed.value()
        if not isinstance(chosen, str) or "/" in chosen or not chosen:
            if key == "experiment" and chosen is None:
                return
            raise ConfigError(f"unknown {key} {_quoted(value)}{did_you_mean(value, choices(key))}")


def _quoted(text: str) -> str:
    return repr(shown(text))


def explain(name: str, arguments: Sequence[str], message: str, cause: str = "") -> str:
    """Turns Hydra's message into one line that names the nearest valid key or choice.

    Args:
        name: of the command.
        arguments: its command line.
        message: what Hydra says.
        cause: what caused that, if it says so.
    """
    key = re.search(r"Could not override '([^']+)'", message)
    if key:
        if key[1].startswith("hydra.launcher.") and not _launcher(arguments):
            return f"{key[1]!r} is no setting of the launcher; choose another, as in hydra/launcher=joblib"
        return f"unknown key {key[1]!r}{did_you_mean(key[1], _keys(name, arguments))}"
    group = re.search(r"Could not find '([^']+)/([^'/]+)'", message)
    if group:
        return f"unknown {group[1]} {group[2]!r}{did_you_mean(group[2], choices(group[1]))}"
    several = re.match(r"Ambiguous value for argument '([^'=]+)=(.*)'$", message, re.MULTILINE)
    if several:
        return (
            f"{several[1]}={several[2]} is several values; several are a sweep: -m {several[1]}={several[2]}"
        )
    if message.startswith("Error merging override") and cause:
        message = f"{message.removeprefix('Error merging override ')}: {cause.splitlines()[0]}"
    return " ".join(message.split())


def _launcher(arguments: Sequence[str]) -> list[str]:
    """Returns the override that chooses a launcher, if there is one."""
    return [argument for argument in arguments if argument.startswith("hydra/launcher=")]


def _chosen(arguments: Sequence[str]) -> list[str]:
    """Returns the overrides that choose among files of configuration."""
    groups = tuple(f"{folder.name}=" for folder in Path(config_folder()).iterdir() if folder.is_dir())
    return [argument for argument in arguments if argument.startswith(groups) and "," not in argument]


def choices(group: str) -> list[str]:
    """Returns the choices of a group, also those that plug-ins offer."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    with initialize_config_dir(config_folder(), version_base="1.3"):
        return GlobalHydra.instance().config_loader().get_group_options(group)


def _keys(name: str, arguments: Sequence[str]) -> list[str]:
    """Returns every key of a command's configuration and of the chosen launcher's, with its path."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(config_folder(), version_base="1.3"):
        data = compose(name, [*_launcher(arguments), *_chosen(arguments)], return_hydra_config=True)
        settings: Any = OmegaConf.to_container(data, resolve=False)
    chosen = settings.pop("hydra")["launcher"]

    def walk(node: Any, path: str) -> Iterator[str]:
        for key, value in node.items():
            yield f"{path}{key}"
            if isinstance(value, dict):
                yield from walk(value, f"{path}{key}.")

    return [*walk(settings, ""), *walk(chosen, "hydra.launcher.")]
