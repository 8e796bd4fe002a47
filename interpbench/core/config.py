"""Strict conversion of plain data (Hydra, JSON) into frozen dataclasses.

Hydra lets a misspelt key inside a YAML file pass; pydantic with extra keys forbidden does not.
A component declares its own settings, beside itself, as
`@pydantic.dataclasses.dataclass(frozen=True, config=STRICT)`.
"""

import dataclasses
import typing
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from interpbench.core.errors import ConfigError, did_you_mean

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid")

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=0)]
"""How many, at least one."""
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A finite number that is not negative."""
Share = Annotated[float, Field(ge=0, le=1)]
"""Between 0 and 1."""


def convert(kind: type[T], data: Mapping[str, Any], where: str = "configuration") -> T:
    """Turns nested plain data into `kind` (a strict dataclass).

    Raises:
        ConfigError: one line that names the offending key with its path and the nearest valid name.
    """
    try:
        return TypeAdapter(kind).validate_python(dict(data))
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        message = first["msg"][:1].lower() + first["msg"][1:]
        if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            message = f"unknown key{did_you_mean(path[-1], _fields_at(kind, path[:-1]))}"
        elif first["type"] in ("missing", "missing_argument"):
            message = "required, but missing"
        else:
            message += f" (got {first['input']!r})"
        raise ConfigError(f"{where}: {'.'.join(path)}: {message}") from None


def _fields_at(kind: Any, path: list[str]) -> list[str]:
    """Returns the field names of the dataclass that `path` leads to."""
    for part in path:
        kind = typing.get_type_hints(kind).get(part, kind) if dataclasses.is_dataclass(kind) else kind
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
