"""The registry of tasks; a new task is a decorated function in a file of `programs/` or `handwritten/`."""

import contextlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from interpbench.causal.model import CausalModel
from interpbench.core.config import TASK, Unchecked, convert
from interpbench.core.errors import InterpBenchError, TaskError
from interpbench.core.old_names import renamed_task, takes_old_names
from interpbench.core.registry import Registry
from interpbench.core.setting_docs import setting_docs
from interpbench.core.text import shown
from interpbench.core.user_code import is_own, own_name
from interpbench.tasks.domain import Domain
from interpbench.tasks.family import REGIME, Family, check_parameters, split_name, split_regimes
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import in_regime, regimes
from interpbench.tasks.samplers import Edit, mixture
from interpbench.tasks.task import AttentionKind, CausalTask, RaspTask, Task

P = TypeVar("P")
_tasks: Registry[Task] = Registry("task")
_families: dict[str, Family] = {}
_members: dict[str, Task] = {}
"""The members of families that have been asked for in this process, by their names."""
_in_regimes: dict[tuple[str, str], Task] = {}
"""The tasks in regimes that have been asked for in this process, by the task before and the regime's text."""
_NAME = re.compile(TASK)
MOST_TOKENS = 4096
"""The largest number of tokens that an input of a task may have."""


def task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    attention: AttentionKind,
    legacy_id: int | None = None,
    alignment: Mapping[str, str] | None = None,
    balance: Sequence[Edit] = (),
    description: str | None = None,
    duplicate_of: str | None = None,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers the decorated function, which returns a RASP expression, as a task.

    The name of the file that it is written in is the task's group.

    Args:
        name: the task's name.
        vocab: the tokens; they are sorted, and a token's code is its index.
        length: the number of tokens of an input, BOS not counted.
        attention: whether the network's attention is causal or bidirectional.
        legacy_id: the task's number in the published InterpBench; None if it is not part of it.
        alignment: the nodes of variables, by name (`"a1.h2"`), where they differ from Tracr's.
        balance: edits of uniform inputs that make rare outputs frequent (`samplers.py`).
        description: a sentence that says what the output is; None for the function's docstring.
        duplicate_of: the name of the task with the same program up to the names of tokens and values, if
            there is one: `double` is `identity`, whose ten classes have other names.
    """

    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        made = RaspTask(
            description=description or "",
            build=build,
            vocab=tuple(vocab),
            length=length,
            attention=attention,
            legacy_id=legacy_id,
            alignment=dict(alignment or {}),
            sampler=mixture(balance, len(vocab), length) if balance else None,
            duplicate_of=duplicate_of,
        )
        _add(name, made, build)
        return build

    return register


@takes_old_names(inputs="domain", placement="alignment")
def causal_task(
    name: str,
    *,
    vocab: Sequence[Any],
    length: int,
    domain: Domain,
    alignment: Mapping[str, str],
    attention: AttentionKind = "causal",
    network: Unchecked = MappingProxyType({}),
    published: Unchecked = MappingProxyType({}),
    variant_of: str | None = None,
    description: str | None = None,
) -> Callable[[Callable[[], CausalModel]], Callable[[], CausalModel]]:
    """Registers the decorated function, which returns a hand-written causal model, as a task.

    The name of the file that it is written in is the task's group.

    Args:
        name: the task's name.
        vocab: the tokens; a token's code is its index here.
        length: the largest number of tokens of an input, BOS not counted.
        domain: the inputs of the task.
        alignment: the node of each variable that has parents, by name (`{"duplicate": "a1.h1"}`).
        attention: whether the network's attention is causal or bidirectional.
        network: settings of its network (`ModelSettings`) that differ from the default rule.
        published: settings of the published network that differ from `network`.
        variant_of: the name of the task with the same program on other inputs, if there is one.
        description: a sentence that says what the output is; None for the function's docstring.
    """

    def register(build: Callable[[], CausalModel]) -> Callable[[], CausalModel]:
        made = CausalTask(
            description=description or "",
            build=build,
            vocab=tuple(vocab),
            length=length,
            domain=domain,
            alignment=dict(alignment),
            attention=attention,
            network=convert(ModelSettings, network, f"task {name}: network"),
            published=convert(ModelSettings, published, f"task {name}: published"),
            variant_of=variant_of,
        )
        _add(name, made, build)
        return build

    return register


def task_family(
    name: str, parameters: type[P], *, one_program: bool = False, listed: bool = True
) -> Callable[[Callable[[P], Task]], Callable[[P], Task]]:
    """Registers the decorated function, which returns the task of given parameters, as a family of tasks.

    It returns a `RaspTask` or a `CausalTask`; its docstring is the description of members that have none. The
    member with default parameters is a task of the catalogue; the others are called `name[parameter=value]`.

    Args:
        name: the name of the family, and of its member with default parameters.
        parameters: a frozen dataclass; each field has a default, and its meaning under `Attributes:`.
        one_program: whether all members have the same program, on different inputs.
        listed: whether the member with default parameters is in the catalogue.

    Raises:
        TaskError: if a parameter has no default or no documentation.
    """
    check_parameters(name, parameters)

    def register(build: Callable[[P], Task]) -> Callable[[P], Task]:
        family = Family(name, parameters, build, one_program)
        if listed:
            _add(name, build(parameters()), build)
        _families[name] = family
        return build

    return register


def _add(name: str, made: Task, declared: Callable[..., Any]) -> None:
    """Adds a task to the catalogue.

    Raises:
        TaskError: if its name cannot be part of a path.
    """
    if not _NAME.fullmatch(name):
        raise TaskError(
            f"a task cannot be called {shown(name)!r}; a name consists of letters, digits, - and _"
        )
    aliases = () if made.legacy_id is None else (str(made.legacy_id),)
    _tasks.add(name, _named(name, made, declared), aliases)


def _named(name: str, made: Task, declared: Callable[..., Any]) -> Task:
    """Returns a task with its name, and with the description and group of the function that declares it.

    Raises:
        TaskError: if its vocabulary, length or attention is not possible.
    """
    if not len(made.vocab):
        raise TaskError(f"task {shown(name)}: vocab is empty")
    if type(made.length) is not int or not 1 <= made.length <= MOST_TOKENS:
        said = f"length={shown(made.length)} is not a whole number from 1 to {MOST_TOKENS}"
        raise TaskError(f"task {shown(name)}: {said}")
    if made.attention not in get_args(AttentionKind):
        choices = " or ".join(get_args(AttentionKind))
        raise TaskError(f"task {shown(name)}: attention={shown(made.attention)}; use {choices}")
    return replace(
        made,
        name=name,
        description=" ".join((made.description or declared.__doc__ or "").split()),
        vocab=tuple(sorted(made.vocab)) if isinstance(made, RaspTask) else made.vocab,
        group=declared.__module__.rpartition(".")[2],
    )


@cache
def _import_all(folder: str) -> None:
    package = importlib.import_module(f"interpbench.tasks.{folder}")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")


@cache
def catalogue() -> Registry[Task]:
    """Returns all tasks, importing every file of `programs/`, `handwritten/` and `generated/` once."""
    for folder in ("programs", "handwritten", "generated"):
        _import_all(folder)
    return _tasks


def families() -> Mapping[str, Family]:
    """Returns the families of tasks by name; the catalogue has a task of the same name for most."""
    catalogue()
    return _families


def get_task(name: str | int) -> Task:
    """Returns a task of the catalogue, or a task that the user has written.

    Args:
        name: the task's name (`hist`) or its number in the published InterpBench (`7`); for a task of the
            user's, `path/to/file.py:name` or `package.module:name`, and that file is imported (`:name` may be
            left out if the file declares one task). Parameters of a family follow in brackets, as in
            `ioi[tokenizer=gpt2]`, and then regimes with their dials, as in `hist[regime=alive,copies=3]`.

    Raises:
        UnknownNameError: if there is no such task; the message names the nearest ones.
        InterpBenchError: if the file cannot be imported, or parameters are not those of the family.
    """
    text, inside = split_name(renamed_task(str(name)))
    if "[" in text and "]" not in text and not is_own(text):
        raise TaskError(f"task {shown(name)}: the bracket is not closed; {shown(text)}] is meant")
    if inside is not None and inside.startswith(","):
        raise TaskError(f"task {shown(name)}: the brackets begin with a comma")
    parameters, texts = split_regimes(inside)
    _import_all("handwritten")  # these need no Tracr
    if text not in _tasks and not is_own(text) and text in families() and text not in catalogue():
        return _in_regimes_of(_member(text, parameters), texts)
    made = _plain(text)
    return _in_regimes_of(made if parameters is None else _member(made.name, parameters), texts)


def _in_regimes_of(made: Task, texts: Sequence[str]) -> Task:
    """Returns a task in regimes, one after the other."""
    for each in texts:
        if (made.name, each) not in _in_regimes:
            found = in_regime(made, each)
            _in_regimes[made.name, each] = _members.setdefault(found.name, found)
        made = _in_regimes[made.name, each]
    return made


def _plain(text: str) -> Task:
    """Returns a task by its name, number or file, without parameters."""
    if text in _tasks:
        return _tasks[text]
    if is_own(text) or ("." in text and text not in catalogue()):
        return _tasks[own_name(text, catalogue, _module, TaskError)]
    return catalogue()[text]


def _module(task: Task) -> str:
    """Returns the module in which a task of the catalogue is declared."""
    declared = _families[task.name] if task.name in _families else task
    return declared.build.__module__


def _member(name: str, text: str | None) -> Task:
    """Returns the member of a family with the parameters in the brackets of its name, or with the default."""
    family = _families.get(name)
    if family is None:
        words = re.findall(r"\w+", text or "")
        meant = [word for word in words if word in regimes()]
        if meant:
            told = ",".join(f"{REGIME}={word}" for word in meant)
            raise TaskError(f"task {name} has no parameter {shown(text)}; did you mean {name}[{told}]?")
        dialled = [
            each for each, kind in regimes().items() if {doc.name for doc in setting_docs(kind)} & {*words}
        ]
        if REGIME in words or dialled:
            those = dialled or list(regimes())
            said = f"say which regime, as in {name}[{REGIME}={those[0]}{f',{text}' if dialled else ''}]"
            raise TaskError(f"task {name} has no parameter {shown(text)}; {said}, of {', '.join(those)}")
        raise TaskError(f"task {name} has no parameters; {', '.join(sorted(families()))} have")
    parameters = family.parameters() if text is None else family.read(text)
    full = family.name_of(parameters)
    if full == name and name in _tasks:
        return _tasks[name]
    if full not in _members:
        made = _named(full, family.build(parameters), family.build)
        _members[full] = replace(made, variant_of=_tasks[name].program_name) if family.one_program else made
    return _members[full]


def known_task(name: str) -> Task | None:
    """Returns the task of that name if it is in the catalogue or has been asked for in this process.

    No file is imported and nothing is downloaded, as the name may come from a file that is not trusted.
    """
    name = renamed_task(name, stored=True)
    base, inside = split_name(name)
    parameters, texts = split_regimes(inside)
    if texts and parameters is None and base in catalogue():
        with contextlib.suppress(InterpBenchError):
            return _in_regimes_of(catalogue()[base], texts)
    return catalogue()[name] if name in catalogue() else _members.get(name)


def program_of(name: str) -> str:
    """Returns the name of the task whose program a task has, or its own; only `known_task`s are looked up."""
    base, inside = split_name(name)
    parameters, _ = split_regimes(inside)
    task, family = known_task(base), families().get(base)
    own = parameters is not None and (family is None or not family.one_program)
    return name if task is None or own else task.program_name
