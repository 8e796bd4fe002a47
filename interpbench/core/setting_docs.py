"""The documentation of a dataclass's settings: defaults, choices, and the `Attributes:` of its docstring."""

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import JsonValue, TypeAdapter
from pydantic_core import to_jsonable_python

REQUIRED = "???"
"""The default of a setting that has none and must be given, as Hydra writes it."""
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_END = re.compile(r": |\. (?=[A-Z])|\.$")
"""The pattern of the end of a description's first clause, which is short enough for a comment."""

WIDTH = 110
"""The longest line of settings with comments."""
LONG = 32
"""A setting with more characters than this has its comment above it, as has one with a long comment."""


class SettingDoc(NamedTuple):
    """A setting of a dataclass.

    Attributes:
        name: the name of the field.
        default: the default as plain data; `REQUIRED` if there is none.
        group: for a field that is a group of settings, their dataclass; else None.
        choices: the possible values, if there are only certain names.
        meaning: the docstring's description up to the first colon or full stop, with YAML's names of values
            (null, true, false); empty if there is none.
    """

    name: str
    default: JsonValue
    group: type[Any] | None
    choices: tuple[str, ...]
    meaning: str

    @property
    def comment(self) -> str:
        """The choices and the meaning, in one line."""
        return ": ".join(part for part in (", ".join(self.choices), self.meaning) if part)


def setting_docs(kind: type[Any]) -> Iterator[SettingDoc]:
    """Yields every setting of a dataclass, in the order of its fields."""
    schema = TypeAdapter(kind).json_schema().get("properties", {})
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        meanings |= dict(_ENTRY.findall(inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]))
    for field in dataclasses.fields(kind):
        choices = tuple(_choices(schema[field.name]))
        said = _plain(_END.split(" ".join(meanings.get(field.name, "").split()))[0])
        group = type(field.default) if dataclasses.is_dataclass(field.default) else None
        yield SettingDoc(field.name, _default(field), group, choices if len(choices) > 1 else (), said)


def summary(kind: type[Any]) -> str:
    """Returns the first line of a class's docstring, with YAML's names of values."""
    return _plain(inspect.cleandoc(kind.__doc__ or "").partition("\n")[0])


def commented(settings: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yields lines of YAML with their comments beside them, or above where they are long."""
    settings = list(settings)
    column = max((len(line) for line, comment in settings if comment and len(line) <= LONG), default=0)
    for line, comment in settings:
        beside = f"{line:<{column}}  # {comment}" if comment else line
        if len(line) <= LONG and len(beside) <= WIDTH:
            yield beside
        else:
            indent = line[: len(line) - len(line.lstrip())]
            yield from [f"{indent}# {comment}"] * bool(comment)
            yield line


def _default(field: "dataclasses.Field[Any]") -> JsonValue:
    if field.default is not dataclasses.MISSING:
        return to_jsonable_python(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return to_jsonable_python(field.default_factory())
    return REQUIRED


def _choices(schema: dict[str, Any]) -> Iterator[str]:
    """Yields the names that a JSON schema allows."""
    yield from map(str, schema.get("enum", [schema["const"]] if "const" in schema else []))
    for part in schema.get("anyOf", []):
        yield from _choices(part)


def _plain(text: str) -> str:
    """Returns a text of a docstring without backticks, and with YAML's names of Python's values."""
    for python, yaml in {"None": "null", "True": "true", "False": "false"}.items():
        text = re.sub(rf"\b{python}\b", yaml, text)
    return text.replace("`", "")
