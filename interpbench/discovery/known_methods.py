"""The records and settings of the package's methods, available without importing torch.

`make configs` stores them in `method_records.json`, the settings as JSON schemas; a test checks that the file
is up to date. A method in a user's file is imported before anything is looked up, so it need not be stored.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import Field, JsonValue, TypeAdapter, create_model
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from interpbench.core.config import STRICT, Settings, convert
from interpbench.core.errors import UnknownNameError
from interpbench.core.files import read_json
from interpbench.core.user_code import is_own
from interpbench.discovery.method_record import MethodRecord

FILE = Path(__file__).with_name("method_records.json")
EXAMPLES = 64
"""The default number of pairs of clean and corrupted inputs for a method, with which the released leaderboard
was made."""
_TYPES: dict[str, type] = {"integer": int, "number": float, "boolean": bool, "string": str}


class SettingSchema(TypedDict, total=False):
    """The JSON schema of a setting, with the keywords that occur in settings of methods."""

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
    """A method's record, and the JSON schema of each of its settings."""

    record: MethodRecord
    settings: dict[str, SettingSchema]


@cache
def known_methods() -> dict[str, KnownMethod]:
    """Returns the stored record and settings of each method of the package, by name."""
    return TypeAdapter(dict[str, KnownMethod]).validate_python(read_json(FILE))


def method_names() -> list[str]:
    """Returns the names of all methods, including those in users' files that have been imported."""
    imported = sys.modules.get("interpbench.discovery.method")
    return sorted({*known_methods(), *(imported.methods() if imported else ())})


def baseline_names() -> list[str]:
    """Returns the names of the package's baselines, with which every leaderboard compares methods."""
    return [name for name, known in known_methods().items() if known.record.baseline]


def most_examples(name: str) -> int | None:
    """Returns the most pairs of inputs that an evaluation gives a method by default; None for no limit."""
    known = known_methods()[name].record if name in known_methods() else _own(name)(name).record
    return known.most_examples


def check_method(name: str, settings: Mapping[str, JsonValue]) -> None:
    """Checks that a method exists and can have these settings.

    Raises:
        UnknownNameError: if the method is neither in the package nor in a user's file.
        ConfigError: if the method has no such setting, or the setting cannot have that value.
    """
    if name in known_methods():
        convert(_settings(name), settings, f"method {name}")
    else:
        _own(name)(name, settings)


def own_settings(name: str, told: Mapping[str, JsonValue]) -> Settings:
    """Returns the settings of a method that are not the default, sorted by name, as they are stored.

    Raises:
        InterpBenchError: if there is no such method or setting, or it cannot have that value.
    """
    if name in known_methods():
        made = convert(_settings(name), told, f"method {name}")
    else:
        made = _own(name)(name, told)
    stored = {key: json.loads(json.dumps(getattr(made, key))) for key in sorted(told)}
    return {
        key: value for key, value in stored.items() if value != json.loads(json.dumps(default(name, key)))
    }


def default(name: str, key: str) -> Any:
    """Returns the default of a method's setting; None if the method has no such setting."""
    if name in known_methods():
        return known_methods()[name].settings.get(key, {}).get("default")
    return getattr(_own(name)(name), key, None)


def _own(name: str) -> Any:
    """Returns `get_method`, imported only now since it imports torch; refuses names of no method."""
    if not is_own(name) and name not in method_names():
        raise UnknownNameError("method", name, known_methods())
    from interpbench.discovery.method import get_method

    return get_method


@cache
def _settings(name: str) -> type[Any]:
    """Returns a pydantic model of a method's settings."""
    fields: dict[str, Any] = {
        key: (_type(schema), schema.get("default")) for key, schema in known_methods()[name].settings.items()
    }
    return create_model(name, __config__=STRICT, **fields)


def _type(schema: SettingSchema) -> Any:
    """Returns the Python type that the JSON schema of a setting describes."""
    if "const" in schema:
        return Literal[schema["const"]]
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return Union[tuple(map(_type, schema["anyOf"]))]  # noqa: UP007  the number of types varies
    kind = schema.get("type", "null")
    if kind == "null":
        return None
    if kind == "array":
        return Annotated[list[_type(schema.get("items", {}))], Field(min_length=schema.get("minItems", 0))]
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    return Annotated[_TYPES[kind], Field(ge=low, le=high, gt=above, lt=below)]
