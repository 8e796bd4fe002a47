"""Families of tasks that parameters tell apart, and the names of their members: `ioi[tokenizer=gpt2]`.

This is the only file that reads or writes what stands in brackets. A member has one name: parameters stand in
the order in which they are declared, those that have their default are left out, and what could not be part
of a path is escaped: `/` is `--`, and any other character that is no letter, digit, `_`, `.` or `-` is `%XX`
as in an address, as is a `-` beside another one or beside a `/`. So no two members share a name.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from interpbench.core.config import MOST_TASK_NAME, convert
from interpbench.core.errors import TaskError, UnknownNameError
from interpbench.core.setting_docs import REQUIRED, setting_docs
from interpbench.core.text import shown
from interpbench.tasks.task import Task


class Family(NamedTuple):
    """Tasks that parameters tell apart.

    Attributes:
        name: of the family, and of its member whose parameters have their defaults.
        parameters: a frozen dataclass; each field has a default, and its meaning under `Attributes:`.
        build: makes the member with some parameters; its name and description are given to it.
        one_program: whether members differ in their inputs alone, so that networks of two members are
            networks of one program and not independent.
    """

    name: str
    parameters: type[Any]
    build: Callable[[Any], Task]
    one_program: bool

    def describe(self) -> list[str]:
        """Returns a line for each parameter: its name, its default, its choices and what it is."""
        docs = setting_docs(self.parameters)
        return [f"{doc.name}={_text(doc.default)} ({doc.comment})" for doc in docs]

    def read(self, text: str) -> Any:
        """Returns the parameters that the brackets of a name hold.

        Raises:
            InterpBenchError: in one line, for a parameter that there is not, or a value that it cannot take.
        """
        known = [field.name for field in dataclasses.fields(self.parameters)]
        told: dict[str, str | None] = {}
        for part in text.split(","):
            key, equals, value = part.partition("=")
            if key not in known or not equals:
                raise UnknownNameError(f"parameter of task {self.name}", key, known)
            if key in told:
                raise TaskError(f"task {self.name}: {key} is said twice")
            told[key] = None if value == "null" else unquote(value.replace("--", "/"), errors=_ERRORS)
        return convert(self.parameters, told, f"task {self.name}")

    def name_of(self, parameters: Any) -> str:
        """Returns the name of the member with these parameters.

        Raises:
            TaskError: if it is too long to name a folder.
        """
        told = {
            field.name: _text(value)
            for field in dataclasses.fields(parameters)
            if (value := getattr(parameters, field.name)) != field.default
        }
        name = with_parameters(self.name, told)
        if len(name) > MOST_TASK_NAME:
            said = f"{len(name)} characters, more than {MOST_TASK_NAME}, are too many for a name"
            raise TaskError(f"task {shown(name)}: {said}")
        return name


def check_parameters(name: str, parameters: type[Any]) -> None:
    """Refuses parameters without which there would be no member, or that nobody could understand.

    Raises:
        TaskError: naming the first.
    """
    if not dataclasses.is_dataclass(parameters):
        raise TaskError(f"task family {name}: its parameters are no dataclass")
    for doc in setting_docs(parameters):
        if doc.default == REQUIRED:
            raise TaskError(f"task family {name}: parameter {doc.name} has no default")
        if not doc.meaning:
            raise TaskError(f"task family {name}: say under Attributes: what {doc.name} is")


def split_name(name: str) -> tuple[str, str | None]:
    """Returns the name of a task or family, and what follows in brackets; None without brackets."""
    family, bracket, rest = name.rpartition("[")
    return (family, rest[:-1]) if bracket and name.endswith("]") else (name, None)


def with_parameters(name: str, values: Mapping[str, str]) -> str:
    """Returns a name with parameters, whose values may hold anything, added to those that it has."""
    family, told = split_name(name)
    parts = [*([told] if told else []), *(f"{key}={_escaped(value)}" for key, value in values.items())]
    return f"{family}[{','.join(parts)}]" if parts else family


_ERRORS = "surrogateescape"
"""How bytes of paths that are no text are kept."""


def _text(value: object) -> str:
    """Returns the value of a parameter as text."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    """Returns text that can be part of a path, and from which the text can be read again."""
    escaped = quote(text, safe="/", errors=_ERRORS).replace("~", "%7E")
    return re.sub(r"(?<=[-/])-|-(?=[-/])", "%2D", escaped).replace("/", "--")
