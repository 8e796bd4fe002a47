"""Strict conversion of plain data (Hydra, JSON) into frozen dataclasses.

Hydra accepts a misspelt key in a YAML file; pydantic with extra keys forbidden does not. Each component
declares its settings in its own file, as `@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)`.
"""

import dataclasses
import json
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from interpbench.core.errors import ConfigError, InterpBenchError, did_you_mean
from interpbench.core.text import shown

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""The pydantic configuration of settings and records: unknown keys, NaN and infinity are refused."""
MOST = 10**9
"""The largest number of anything that a setting or a record may give."""
Count = Annotated[int, Field(ge=1, le=MOST)]
"""A number of things, at least one."""
Steps = Annotated[int, Field(ge=0, le=MOST)]
"""A number of things, at least none."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""A seed that torch takes."""
Threads = Annotated[int, Field(ge=1, le=256)]
"""A number of threads of a process, bounded because a system cannot start arbitrarily many."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number that is not negative."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A number between 0 and 1."""
RankedItems = Annotated[int, Field(ge=0, le=50_000)]
"""A number of nodes or edges of a network."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that is neither infinite nor NaN."""
Unchecked = Mapping[str, Any]
"""Plain data from Hydra or a file, before `convert` or `checked` has turned it into a dataclass."""
Settings = dict[str, JsonValue]
"""Settings, such as those of a method, that a record stores as plain data without interpreting them."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal."""
TASK = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
"""The pattern of a task's name without parameters."""
MOST_TASK_NAME = 200
"""The largest number of characters in a task's name with parameters."""
_OLD = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
"""The pattern of parameters in version 0.1.0: the name of a tokenizer."""
_NEW = r"[A-Za-z_]\w*=[A-Za-z0-9_.%-]*"
TaskName = Annotated[
    str, Field(pattern=rf"^{TASK}(\[({_OLD}|{_NEW}(,{_NEW})*)\])?$", max_length=MOST_TASK_NAME)
]
"""The name of a task, perhaps with parameters (`tasks.family`). It is safe as a part of a path."""
MethodName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}$")]
"""The name of a method in a record. It is safe as a part of a path."""


def config_folder() -> str:
    """Returns the folder of the YAML files: beside the package in a checkout, within it if installed."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "configs"
    return str(beside if beside.is_dir() else package / "configs")


def convert(kind: type[T], data: Unchecked, where: str = "configuration") -> T:
    """Turns nested plain data, such as a configuration, into a dataclass.

    Args:
        kind: the dataclass.
        data: the plain data.
        where: the name of the configuration, with which an error message begins.

    Raises:
        ConfigError: if a key is unknown or missing, or has a wrong value; the message names the key with its
            path, and the nearest valid name.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first(error, kind)}") from None


def checked(kind: type[T], data: object, where: object, error: type[InterpBenchError]) -> T:
    """Turns plain data of a file into a dataclass, a TypedDict or a list of these, without converting types.

    Args:
        kind: the type.
        data: the plain data.
        where: the name of the file, with which an error message begins.
        error: the class of the exception to raise.

    Raises:
        InterpBenchError: `error`, if anything is missing, unknown, ill-typed or out of range.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data), strict=True)  # a string is not a number
    except ValidationError as problem:
        raise error(f"{where} is damaged: {_first(problem, kind)}") from None
    except (RecursionError, OverflowError, TypeError, ValueError):
        raise error(f"{where} is damaged: nested too deeply, or not JSON") from None


def _first(error: ValidationError, kind: object) -> str:
    """Returns a message on the first problem: its path, what is wrong, and the nearest name or the value."""
    first = error.errors(include_url=False)[0]
    path = [shown(part) for part in first["loc"]]
    message = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        message = f"unknown key{did_you_mean(path[-1], _fields_at(kind, path[:-1]))}"
    elif first["type"] in ("missing", "missing_argument"):
        message = "required, but missing"
    elif first["type"] == "value_error":
        message = message.removeprefix("value error, ")
    else:
        message += f" (got {_short(first['input'])})"
    return f"{'.'.join(path)}: {message}" if path else message


def _short(value: object) -> str:
    """Returns a short representation of a value for a message, however large the value is."""
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"  # pyright: ignore[reportUnknownArgumentType]
    return shown(repr(value[:99] if isinstance(value, str) else value))


def _fields_at(kind: object, path: list[str]) -> list[str]:
    """Returns the field names of the dataclass that `path` leads to."""
    for part in path:
        kind = typing.get_type_hints(kind).get(part, kind) if dataclasses.is_dataclass(kind) else kind
        kind = typing.get_args(kind)[0] if typing.get_origin(kind) is list else kind
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "model_fields", {}))
