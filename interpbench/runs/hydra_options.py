"""The options that a command which Hydra configures has besides its settings, and what answers them.

Hydra's own entry point answers them too, but takes them from `sys.argv` alone, and has one that reads a
pickle. Here argparse parses them, and `hydra.compose` and the help templates of the configuration answer.
"""

import sys
from collections.abc import Iterable, Sequence
from string import Template
from typing import Any, NamedTuple, cast

from interpbench.core.errors import ConfigError, did_you_mean
from interpbench.core.exports import version_of
from interpbench.core.text import shown
from interpbench.runs.entry import Command, compose_run
from interpbench.runs.subcommand import OneLineParser, argument

OPTIONS = (
    argument("-h", "--help", action="store_true", help="the settings, their groups and their defaults"),
    argument("--hydra-help", action="store_true", help="these options, and the groups of hydra's settings"),
    argument("--version", action="store_true", help="of this package and of Hydra"),
    argument(
        *("-c", "--cfg"), choices=("job", "hydra", "all"), help="the configuration that a run would have"
    ),
    argument("--resolve", action="store_true", help="with --cfg or --help: without interpolations"),
    argument("-i", "--info", action="store_true", help="where the configuration comes from, and plug-ins"),
    argument(
        *("-sc", "--shell-completion"),
        nargs="?",
        const="",
        metavar="install=SHELL",
        help="a script that installs completion of settings, or uninstall=SHELL",
    ),
    argument("-m", "--multirun", action="store_true", help="a sweep over all values that settings list"),
)
NAMES = tuple(name for option in OPTIONS for name in option.names)
SWEEP = "hydra.mode=MULTIRUN"
COMPLETION = ("install", "uninstall", "query")


class CommandLine(NamedTuple):
    """A command line.

    Attributes:
        settings: what it says for the configuration, as Hydra takes it.
        sweeps: whether they are of a sweep.
        question: what it asks instead of a run, as `--help`; None for a run.
        value: what belongs to the question, as `job` to `--cfg`.
        resolve: whether an answer is to be without interpolations.
    """

    settings: list[str]
    sweeps: bool
    question: str | None
    value: str
    resolve: bool


def parse(arguments: Sequence[str]) -> CommandLine:
    """Tells the options of a command line from its settings.

    Raises:
        ConfigError: in one line, for an option that there is not, or its value.
    """
    for option in (each.partition("=")[0] for each in arguments):
        if option.startswith("-") and option not in NAMES:
            near = did_you_mean(option, NAMES)
            if "did you mean" not in near:
                near = "; settings are key=value, as in task=hist"
            raise ConfigError(f"unknown option {shown(option)!r}{near}")
    parsed = vars(_parser().parse_intermixed_args(arguments))
    answers = ("help", "hydra_help", "version", "cfg", "info", "shell_completion")
    question = next((name for name in answers if parsed[name] not in (None, False)), None)
    settings: list[str] = [each for each in parsed["settings"] if each != SWEEP]
    sweeps = parsed["multirun"] or SWEEP in parsed["settings"]
    if sweeps and question not in (None, "help"):
        raise ConfigError(f"a sweep takes settings, not the option '--{question.replace('_', '-')}'")
    return CommandLine(
        settings, sweeps, question, str(parsed[question]) if question else "", parsed["resolve"]
    )


def answer(command: Command, line: CommandLine) -> str:
    """Returns what a command line asks instead of a run; Hydra must be initialised.

    Raises:
        InterpBenchError: for a shell that Hydra has no completion for, or a task that there is not.
        HydraException: if the settings of the line cannot be composed.
    """
    import hydra
    from omegaconf import OmegaConf

    if line.question == "version":
        return f"interpbench {version_of('interpbench')}, Hydra {hydra.__version__}\n"
    if line.question == "shell_completion":
        return _complete(command.name, line.value)
    settings = compose_run(command, line.settings).overrides if line.question == "cfg" else line.settings
    composed = hydra.compose(command.name, settings, return_hydra_config=True)
    if line.question == "info":
        return _information(composed.hydra.runtime)
    own = [key for key in composed if key != "hydra"]
    keys: list[Any] = {"hydra": ["hydra"], "all": ["hydra", *own]}.get(line.value, own)
    chosen = OmegaConf.masked_copy(composed, keys)
    if line.question == "cfg":
        return OmegaConf.to_yaml(chosen, resolve=line.resolve)
    texts = composed.hydra.help if line.question == "help" else composed.hydra.hydra_help
    configuration = OmegaConf.to_yaml(chosen, resolve=line.resolve)
    if line.question == "help":
        configuration = _with_meanings(command, configuration, str(composed.get("method", {}).get("name")))
    groups = [str(group) for group in composed.hydra.runtime.choices]
    said = Template(texts.template).substitute(
        FLAGS_HELP=_parser(f"{command.name}.py").format_help(),
        APP_CONFIG_GROUPS=_choices(group for group in groups if not group.startswith("hydra/")),
        HYDRA_CONFIG_GROUPS=_choices(group for group in groups if group.startswith("hydra/")),
        CONFIG=configuration,
    )
    return f"{said.rstrip()}\n"


def _with_meanings(command: Command, configuration: str, method: str) -> str:
    """Returns settings as YAML, each with its choices and its meaning.

    Args:
        command: whose settings these are.
        configuration: the settings.
        method: the method among them, if there is one.
    """
    from interpbench.runs.setting_help import explained, meanings, method_meanings

    kind = command.settings()
    said = {} if kind is None else {**meanings(kind), **method_meanings(method)}
    return explained(configuration, said)


def _parser(name: str = "") -> OneLineParser:
    parser = OneLineParser(prog=name, add_help=False, allow_abbrev=False)
    for option in OPTIONS:
        parser.add_argument(*option.names, **option.options)
    parser.add_argument("settings", nargs="*", metavar="key=value", help="as in task=hist trainer.batch=128")
    return parser


def _choices(groups: Iterable[str]) -> str:
    """Returns a line for each group of configuration files of which there are several to choose from."""
    from hydra.core.global_hydra import GlobalHydra

    loader = GlobalHydra.instance().config_loader()
    options = {group: ", ".join(sorted(loader.get_group_options(group))) for group in sorted(groups)}
    return "".join(f"{group}: {names}\n" for group, names in options.items() if "," in names)


def _information(runtime: Any) -> str:
    """Returns where a configuration comes from, what was chosen for it, and Hydra's plug-ins."""
    from hydra.core.plugins import Plugins

    sources = [f"{source.provider}: {source.schema}://{source.path}" for source in runtime.config_sources]
    choices = [f"{group}: {choice}" for group, choice in runtime.choices.items()]
    plugins = sorted(plugin.__name__ for plugin in Plugins.instance().discover())
    parts = {f"Hydra {runtime.version}, from": sources, "Choices": choices, "Plug-ins": plugins}
    return "\n".join(f"{title}\n" + "".join(f"  {each}\n" for each in part) for title, part in parts.items())


def _complete(name: str, wanted: str) -> str:
    """Has Hydra print what a shell evaluates, or the completions of what is typed in one.

    Raises:
        ConfigError: naming the shells that there are.
    """
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins
    from hydra.plugins.completion_plugin import CompletionPlugin

    found = cast("list[type[CompletionPlugin]]", Plugins.instance().discover(CompletionPlugin))
    shells = {plugin.provides(): plugin for plugin in found}
    what, _, shell = wanted.partition("=")
    if what not in COMPLETION or shell not in shells:
        choices = [f"{each}={one}" for each in COMPLETION[:2] for one in sorted(shells)]
        raise ConfigError(f"--shell-completion {shown(wanted)!r}{did_you_mean(wanted, choices)}")
    plugin = shells[shell](GlobalHydra.instance().config_loader())
    if what == "query":
        plugin.query(name)
    else:
        getattr(plugin, what)()
    sys.stdout.flush()
    return ""
