"""The commands of the decoys: a method on a circuit, all methods on it, the table, the gate, the page.

Values of method, circuit, labels, samples and seed are taken from the command line, else from the environment
variables NEUROTRACE_METHOD, _CIRCUIT, _LABELS, _SAMPLES and _SEED, else from defaults.
"""

import logging
import os
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple, get_args

from interpbench.core.config import MOST
from interpbench.core.console import WIDE, console
from interpbench.core.errors import ConfigError, DiscoveryError, did_you_mean
from interpbench.core.files import check_file
from interpbench.core.text import shown
from interpbench.core.user_code import is_own, own_name
from interpbench.decoys.decoy_circuits import DECOY_CIRCUITS
from interpbench.decoys.decoy_scores import MOST_SAMPLES, SAMPLES, SEEDS, Labels
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.runs.subcommand import Argument, argument, subcommand

log = logging.getLogger(__name__)
VARIABLE = "NEUROTRACE_"
"""The beginning of the names of the environment variables that give defaults."""
MOST_SEEDS = 10_000
"""The largest number of seeds of the gate."""


class Setting(NamedTuple):
    """A value that a flag, an environment variable or a default gives.

    Attributes:
        text: the value as text.
        source: which flag or variable has given it, for messages.
    """

    text: str
    source: str


def _option(name: str, default: object, meaning: str) -> Argument:
    variable = f"{VARIABLE}{name.upper()}"
    return argument(f"--{name}", metavar=name.upper(), help=f"{meaning} ({variable}, else {default})")


METHOD = _option("method", "gradient", "a method, or path/to/file.py:name")
OWN = argument("--method", metavar="METHOD", help="path/to/file.py:name, a method that is compared, too")
CIRCUIT = _option("circuit", "suppressor", "a circuit")
LABELS = _option("labels", "true", "which features count as causal: true or scrambled")
NUMBERS = (
    _option("samples", SAMPLES, "the number of inputs"),
    _option("seed", 0, "the seed of all draws"),
)


def _setting(arguments: Namespace, name: str, default: object) -> Setting:
    """Returns what the flag says, else a variable that is set and not empty, else the default."""
    given, variable = getattr(arguments, name), f"{VARIABLE}{name.upper()}"
    if given is not None:
        return Setting(given, f"--{name}")
    return Setting(os.environ.get(variable) or str(default), variable)


def _choice(setting: Setting, choices: Collection[str]) -> str:
    """Returns a name.

    Raises:
        ConfigError: if there is none of this name.
    """
    if setting.text not in choices:
        said = did_you_mean(setting.text, choices)
        raise ConfigError(f"{setting.source}: there is no {shown(setting.text)!r}{said}")
    return setting.text


def _number(setting: Setting, least: int, most: int) -> int:
    """Returns a whole number.

    Raises:
        ConfigError: if it is none, or out of range.
    """
    text = setting.text
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
        raise ConfigError(f"{setting.source}: {shown(text)!r} is no number from {least} to {most:,}")
    return int(text)


def _method(setting: Setting) -> str:
    """Returns the name of a method; one of the user's own is imported."""
    if is_own(setting.text):
        return own_name(setting.text, lambda: ATTRIBUTIONS, lambda one: one.scores.__module__, DiscoveryError)
    return _choice(setting, list(ATTRIBUTIONS))


class _Run(NamedTuple):
    """What `attribute` and `compare` are run with, besides a method."""

    circuit: str
    labels: Labels
    samples: int
    seed: int


def _run(arguments: Namespace) -> _Run:
    circuit = _choice(_setting(arguments, "circuit", "suppressor"), list(DECOY_CIRCUITS))
    chosen = _choice(_setting(arguments, "labels", "true"), get_args(Labels))
    labels: Labels = "true" if chosen == "true" else "scrambled"
    samples = _number(_setting(arguments, "samples", SAMPLES), 2, MOST_SAMPLES)
    return _Run(circuit, labels, samples, _number(_setting(arguments, "seed", 0), 0, MOST))


@subcommand(
    "decoys attribute", "what a method says of a circuit with decoys", METHOD, CIRCUIT, LABELS, *NUMBERS
)
def _attribute(arguments: Namespace) -> int:
    run, method = _run(arguments), _method(_setting(arguments, "method", "gradient"))
    from interpbench.runs.decoys import show_attribution

    show_attribution(console(), method, *run)
    return 0


@subcommand("decoys compare", "all methods on a circuit with decoys", OWN, CIRCUIT, LABELS, *NUMBERS)
def _compare(arguments: Namespace) -> int:
    run, given = _run(arguments), arguments.method
    own = [] if given is None else [_method(Setting(given, "--method"))]
    from interpbench.runs.decoys import show_comparison

    show_comparison(console(), list(dict.fromkeys((*METHODS, *own))), *run)
    return 0


@subcommand("decoys circuits", "list the circuits with decoys, and the methods")
def _circuits(arguments: Namespace) -> int:
    from interpbench.runs.decoys import show_circuits

    show_circuits(console())
    return 0


@subcommand("decoys table", "write the tables of docs/decoys.md and its figures")
def _table(arguments: Namespace) -> int:
    from interpbench.runs.decoys_document import write_document

    log.info("wrote %s", write_document())
    return 0


@subcommand(
    "decoys gate",
    "fail unless every method is fooled by what theory says, and by nothing else",
    argument("--seeds", metavar="N", default=str(SEEDS), help=f"the number of seeds ({SEEDS})"),
)
def _gate(arguments: Namespace) -> int:
    seeds = _number(Setting(arguments.seeds, "--seeds"), 1, MOST_SEEDS)
    from interpbench.runs.decoys import show_gate

    return 0 if show_gate(console(WIDE), seeds) else 1


@subcommand(
    "decoys page",
    "write an HTML page on which circuit, method, strength, samples and seed can be moved",
    argument("file", metavar="FILE", help="the file to write"),
)
def _page(arguments: Namespace) -> int:
    path = Path(arguments.file)
    check_file(path)
    from interpbench.core.files import write_text
    from interpbench.reports.decoys_page import decoys_page

    write_text(path, decoys_page())
    log.info("wrote %s", path)
    return 0
