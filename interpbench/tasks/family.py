"""Families of tasks with parameters, and the names of their members: `ioi[tokenizer=gpt2]`.

This is the only file that reads or writes the brackets. A member has exactly one name: parameters are in the
order of their declaration, parameters with their default value are left out, and characters that cannot be
part of a path are escaped. `/` is written `--`; any other character that is not a letter, digit, `_`, `.` or
`-` is written `%XX` as in a URL, and so is a `-` next to another `-` or to a `/`.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from interpbench.core.config import MOST_TASK_NAME, convert
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.core.setting_docs import REQUIRED, setting_docs
from interpbench.core.text import shown
from interpbench.tasks.task import Task

P = TypeVar("P")
REGIME = "regime"
"""The parameter in the brackets of a task's name that begins a regime."""


class Family(NamedTuple):
    """A family of tasks that differ in their parameters.

    Attributes:
        name: the name of the family, and of its member with default parameters.
        parameters: a frozen dataclass; each field has a default, and its meaning under `Attributes:`.
        build: the function that returns the member with given parameters, without its name and description.
        one_program: whether members differ only in their inputs, so that their networks are of one program
            and not independent.
    """

    name: str
    parameters: type[Any]
    build: Callable[[Any], Task]
    one_program: bool

    def describe(self) -> list[str]:
        """Returns a line for each parameter: its name, default, choices and meaning."""
        docs = setting_docs(self.parameters)
        return [f"{doc.name}={_text(doc.default)} ({doc.comment})" for doc in docs]

    def read(self, text: str) -> Any:
        """Returns the parameters of the text in the brackets of a name.

        Raises:
            InterpBenchError: if there is no such parameter, or it cannot have this value.
        """
        return read_parameters(f"task {self.name}", self.parameters, text)

    def name_of(self, parameters: Any) -> str:
        """Returns the name of the member with these parameters.

        Raises:
            TaskError: if the name is too long for a folder.
        """
        return told_parameters(self.name, {}, parameters)


def read_parameters(what: str, parameters: type[P], text: str) -> P:
    """Returns the parameters of the text in the brackets of a name.

    Args:
        what: whose parameters they are, in messages.
        parameters: the frozen dataclass.
        text: the text, as in `tokenizer=gpt2,length=3`.

    Raises:
        InterpBenchError: if there is no such parameter, or it cannot have this value.
    """
    known = [field.name for field in dataclasses.fields(parameters)]  # pyright: ignore[reportArgumentType]
    told: dict[str, str | None] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if key not in known or not equals:
            raise UnknownNameError(f"parameter of {what}", key, known)
        if key in told:
            raise TaskError(f"{what}: parameter {key} is given twice")
        told[key] = None if value == "null" else unquote(value.replace("--", "/"), errors=_ERRORS)
    return convert(parameters, told, what)


def told_parameters(name: str, first: Mapping[str, str], parameters: Any) -> str:
    """Returns a name with parameters added to those that it has.

    Args:
        name: the name.
        first: parameters that are added in any case.
        parameters: a dataclass, whose fields are added that have no default values.

    Raises:
        TaskError: if the name is too long for a folder.
    """
    told = {
        field.name: _text(value)
        for field in dataclasses.fields(parameters)
        if (value := getattr(parameters, field.name)) != field.default
    }
    full = with_parameters(name, {**first, **told})
    if len(full) > MOST_TASK_NAME:
        said = f"the name has {len(full)} characters, more than {MOST_TASK_NAME}; use shorter values"
        raise TaskError(f"task {shown(full)}: {said}")
    return full


def check_parameters(name: str, parameters: type[Any]) -> None:
    """Checks that the parameters of a family are a dataclass with defaults and documentation.

    Raises:
        TaskError: if they are not; the message names the first parameter that is wrong.
    """
    if not dataclasses.is_dataclass(parameters):
        raise TaskError(f"task family {name}: its parameters are not a dataclass")
    for doc in setting_docs(parameters):
        if doc.default == REQUIRED:
            raise TaskError(f"task family {name}: parameter {doc.name} has no default")
        if not doc.meaning:
            raise TaskError(f"task family {name}: parameter {doc.name} is not documented under Attributes:")


def split_name(name: str) -> tuple[str, str | None]:
    """Returns the name before the brackets, and the text in them; None if there are no brackets."""
    family, bracket, rest = name.rpartition("[")
    return (family, rest[:-1]) if bracket and name.endswith("]") else (name, None)


def split_regimes(text: str | None) -> tuple[str | None, list[str]]:
    """Returns the parameters in the brackets of a name, and the text of each regime after them.

    `tokenizer=gpt2,regime=rare,share=0.1,regime=alive` is cut into `tokenizer=gpt2`, `rare,share=0.1` and
    `alive`; without parameters, the first one is None.
    """
    first, *texts = re.split(rf"(?:^|,){REGIME}=", text or "")
    return first or (None if texts or text is None else ""), texts


def with_parameters(name: str, values: Mapping[str, str]) -> str:
    """Returns a name with parameters added to those that it has; values may contain any characters."""
    family, told = split_name(name)
    parts = [*([told] if told else []), *(f"{key}={_escaped(value)}" for key, value in values.items())]
    return f"{family}[{','.join(parts)}]" if parts else family


_ERRORS = "surrogateescape"
"""The way in which bytes of a path that are not valid text are kept."""


def _text(value: object) -> str:
    """Returns the value of a parameter as text."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Returns text with all characters escaped that cannot be part of a path; `read` undoes it."""
    escaped = quote(text, safe="/", errors=_ERRORS).replace("~", "%7E")
    return re.sub(r"(?<=[-/])-|-(?=[-/])", "%2D", escaped).replace("/", "--")
