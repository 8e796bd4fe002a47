"""Strict conversion of plain data (Hydra, JSON) into frozen dataclasses.

Hydra lets a misspelt key inside a YAML file pass; pydantic with extra keys forbidden does not.
A component declares its own settings, beside itself, as
`@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)`.
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

MOST = 10**9
Count = Annotated[int, Field(ge=1, le=MOST)]
"""How many, at least one."""
Steps = Annotated[int, Field(ge=0, le=MOST)]
"""How many, or none."""
Threads = Annotated[int, Field(ge=1, le=256)]
"""Threads of a process; a thousand times as many cannot be started."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number that is not negative."""
Share = Annotated[float, Field(ge=0, le=1)]
"""Between 0 and 1."""
RankedItems = Annotated[int, Field(ge=0, le=50_000)]
"""How many nodes or edges of a kind a network has."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
Unchecked = Mapping[str, Any]
"""Plain data as Hydra or a file gives it, before `convert` or `checked` has made a type of it."""
Settings = dict[str, JsonValue]
"""Settings of a method, or of anything else that a file keeps without knowing what they mean."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TASK = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
MOST_TASK_NAME = 200
_OLD = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
"""What stood in brackets in version 0.1.0: a tokenizer."""
_NEW = r"[A-Za-z_]\w*=[A-Za-z0-9_.%-]*"
TaskName = Annotated[
    str, Field(pattern=rf"^{TASK}(\[({_OLD}|{_NEW}(,{_NEW})*)\])?$", max_length=MOST_TASK_NAME)
]
"""A task of the catalogue, or of a file that a user names, perhaps with parameters (`tasks.family`). It
becomes part of paths, and is never a file or an address itself."""
MethodName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.=+-]{0,79}$")]
"""A method as a record names it; part of paths."""


def config_folder() -> str:
    """Returns the folder of the YAML files: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parents[1]
    beside = package.parent / "configs"
    return str(beside if beside.is_dir() else package / "configs")


def convert(kind: type[T], data: Unchecked, where: str = "configuration") -> T:
    """Turns nested plain data into `kind` (a strict dataclass).

    Raises:
        ConfigError: one line that names the offending key with its path and the nearest valid name.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(data))
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first(error, kind)}") from None


def checked(kind: type[T], data: object, where: object, error: type[InterpBenchError]) -> T:
    """Turns what a file holds into `kind`: a dataclass, a TypedDict, a list of these; converts no types.

    Raises:
        InterpBenchError: `error`, in one line that begins with `where`, if anything is missing, unknown,
            ill-typed or out of range.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(data), strict=True)  # nothing is converted
    except ValidationError as problem:
        raise error(f"{where} is damaged: {_first(problem, kind)}") from None
    except (RecursionError, OverflowError, TypeError, ValueError):
        raise error(f"{where} is damaged: nested too deeply, or not JSON") from None


def _first(error: ValidationError, kind: object) -> str:
    """Returns the first problem: its path and what is wrong, with the nearest valid name or the value."""
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
    """Returns a value for a message, whatever its size."""
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__}"  # pyright: ignore[reportUnknownArgumentType]
    return shown(repr(value[:99] if isinstance(value, str) else value))


def _fields_at(kind: object, path: list[str]) -> list[str]:
    """Returns the field names of the dataclass that `path` leads to."""
    for part in path:
        kind = typing.get_type_hints(kind).get(part, kind) if dataclasses.is_dataclass(kind) else kind
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(getattr(kind, "model_fields", {}))
