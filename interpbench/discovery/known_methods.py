"""What is known of each method of the package without importing it, which takes torch.

`make configs` stores it in `method_records.json`, settings as JSON schemas; a test checks that
it is current. Methods of a user's own have been imported by the time that anything is asked of them.
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import Field, JsonValue, TypeAdapter, create_model
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from interpbench.core.config import STRICT, convert
from interpbench.core.errors import UnknownNameError
from interpbench.core.files import read_json
from interpbench.core.user_code import is_own
from interpbench.discovery.method_record import MethodRecord

FILE = Path(__file__).with_name("method_records.json")
EXAMPLES = 64
"""Pairs of clean and corrupted inputs that a method gets, in Python and on the command line, unless said
otherwise: with so many the released leaderboard was made, and more would make every evaluation slower."""
_TYPES: dict[str, type] = {"integer": int, "number": float, "boolean": bool, "string": str}


class SettingSchema(TypedDict, total=False):
    """The JSON schema of a setting, with what schemas of settings have."""

    anyOf: "list[SettingSchema]"
    const: JsonValue
    default: JsonValue
    enum: list[JsonValue]
    exclusiveMaximum: int | float
    exclusiveMinimum: int | float
    items: "SettingSchema"
    maximum: int | float
    minItems: int
    minimum: int | float
    type: Literal["integer", "number", "boolean", "string", "array", "null"]


@dataclass(frozen=True, config=STRICT)
class KnownMethod:
    """What is stored of a method: its record, and the JSON schema of each of its settings."""

    record: MethodRecord
    settings: dict[str, SettingSchema]


@cache
def known_methods() -> dict[str, KnownMethod]:
    """Returns what is stored of each method of the package, by their names."""
    return TypeAdapter(dict[str, KnownMethod]).validate_python(read_json(FILE))


def method_names() -> list[str]:
    """Returns the names of all methods, those of a user's own that have been imported among them."""
    imported = sys.modules.get("interpbench.discovery.method")
    return sorted({*known_methods(), *(imported.methods() if imported else ())})


def baseline_names() -> list[str]:
    """Returns the names of the package's baselines, with which every leaderboard compares."""
    return [name for name, known in known_methods().items() if known.record.baseline]


def most_examples(name: str) -> int | None:
    """Returns how many pairs an evaluation gives a method at most, if its record says so."""
    known = known_methods()[name].record if name in known_methods() else _own(name)(name).record
    return known.most_examples


def check_method(name: str, settings: Mapping[str, JsonValue]) -> None:
    """Checks the name of a method and its settings.

    Raises:
        UnknownNameError: for a method that is neither the package's nor a user's own.
        ConfigError: for a setting that it does not have, or a value that it cannot take.
    """
    if name in known_methods():
        convert(_settings(name), settings, f"method {name}")
    else:
        _own(name)(name, settings)


def default(name: str, key: str) -> Any:
    """Returns the default of a method's setting; None for one that it does not have."""
    if name in known_methods():
        return known_methods()[name].settings.get(key, {}).get("default")
    return getattr(_own(name)(name), key, None)


def _own(name: str) -> Any:
    """Returns what makes a user's own method."""
    if not is_own(name) and name not in method_names():
        raise UnknownNameError("method", name, known_methods())
    from interpbench.discovery.method import get_method

    return get_method


@cache
def _settings(name: str) -> type[Any]:
    """Returns a model with a method's settings."""
    fields: dict[str, Any] = {
        key: (_type(schema), schema.get("default")) for key, schema in known_methods()[name].settings.items()
    }
    return create_model(name, __config__=STRICT, **fields)


def _type(schema: SettingSchema) -> Any:
    """Returns the type that a JSON schema stands for, of those that settings have."""
    if "const" in schema:
        return Literal[schema["const"]]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return Union[tuple(map(_type, schema["anyOf"]))]  # noqa: UP007  of a number that is not known
    kind = schema.get("type", "null")
    if kind == "null":
        return None
    if kind == "array":
        return Annotated[list[_type(schema.get("items", {}))], Field(min_length=schema.get("minItems", 0))]
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    return Annotated[_TYPES[kind], Field(ge=low, le=high, gt=above, lt=below)]
