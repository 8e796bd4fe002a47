"""A sub-command of `interpbench`: its name, its arguments and its function, declared in one place.

Adding one is a function under `@subcommand` in a file that `cli.py` imports. The file must not import torch:
mistakes on a command line are answered before anything that takes seconds is imported.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.core.exports import version_of
from interpbench.core.registry import Registry
from interpbench.core.text import shown
from interpbench.runs.entry import complain

Function = Callable[[argparse.Namespace], int]


@dataclass(frozen=True)
class Argument:
    """One argument: what `argparse.ArgumentParser.add_argument` takes."""

    names: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class Subcommand(NamedTuple):
    """A sub-command as registered.

    Attributes:
        run: the function, which returns the exit status.
        summary: what `interpbench --help` says of it.
        arguments: what it takes besides `--help`.
    """

    run: Function
    summary: str
    arguments: tuple[Argument, ...]


SUBCOMMANDS: Registry[Subcommand] = Registry("command")


def argument(*names: str, **options: Any) -> Argument:
    """Declares an argument, as `argparse.ArgumentParser.add_argument` takes it."""
    return Argument(names, options)


def subcommand(name: str, summary: str, *arguments: Argument) -> Callable[[Function], Function]:
    """Registers a function as `interpbench <name>`.

    Args:
        name: of the command, of one word or two.
        summary: what `interpbench --help` says of it.
        arguments: what it takes besides `--help`.
    """

    def register(run: Function) -> Function:
        SUBCOMMANDS.add(name, Subcommand(run, summary, arguments))
        return run

    return register


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, and this project's own."""

    def error(self, message: str) -> NoReturn:
        """Raises what argparse complains of.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(message)


def _group_parser(first: str) -> OneLineParser:
    """Returns a parser with the commands of two words that begin with `first`, for its help."""
    made = OneLineParser(prog=f"interpbench {first}")
    commands = made.add_subparsers(metavar="COMMAND")
    for name, command in SUBCOMMANDS.items():
        if name.startswith(f"{first} "):
            commands.add_parser(name.split()[1], help=command.summary)
    return made


def run_subcommand(arguments: Sequence[str]) -> int:
    """Runs what a command line names and returns the exit status; without a command it shows the help.

    The status is 2, after one line, for a command or an argument that there is not.

    Raises:
        ConfigError: for a value that an argument does not take.
    """
    parser = OneLineParser(
        prog="interpbench",
        description="Networks whose circuit is known and certified, and methods scored against them.",
    )
    parser.add_argument("--version", action="version", version=version_of("interpbench"))
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, command in SUBCOMMANDS.items():
        made = commands.add_parser(name, help=command.summary, allow_abbrev=False)
        made.set_defaults(run=command.run, subcommand=name)
        for one in command.arguments:
            made.add_argument(*one.names, **one.options)
    if not arguments:
        parser.print_help()
        return 0
    first = arguments[0]
    group = [name.split()[1] for name in SUBCOMMANDS if name.startswith(f"{first} ")]
    if group and arguments[1:2] not in [[name] for name in group]:
        if arguments[1:2] in (["-h"], ["--help"]):
            _group_parser(first).print_help()
            return 0
        if not arguments[1:]:
            return complain(f"interpbench {first} needs one of {', '.join(group)}")
        said = did_you_mean(arguments[1], group)
        return complain(f"unknown command {shown(' '.join(arguments[:2]))!r}{said}")
    if group:  # commands of two words
        first = f"{first} {arguments[1]}"
        arguments = [first, *arguments[2:]]
    if not first.startswith("-") and first not in SUBCOMMANDS:
        return complain(f"unknown command {shown(first)!r}{did_you_mean(first, SUBCOMMANDS)}")
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        return complain(f"unknown option {shown(first)!r}; interpbench --help lists the commands")
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        names = [name for one in SUBCOMMANDS[parsed.subcommand].arguments for name in one.names]
        options = [name for name in ("--help", *names) if name.startswith("-")]
        return complain(f"unknown argument {shown(unknown[0])!r}{did_you_mean(unknown[0], options)}")
    return parsed.run(parsed)
