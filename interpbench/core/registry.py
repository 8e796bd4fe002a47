"""Registries, which map names to values, such as the names of methods to their classes."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from interpbench.core.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """A mapping from names and aliases to values, in which a name has one value.

    Args:
        kind: the kind of the values in error messages, such as `method`.
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._values: dict[str, T] = {}
        self._aliases: dict[str, str] = {}

    def add(self, name: str, value: T, aliases: tuple[str, ...] = ()) -> T:
        """Adds a value and returns it.

        Args:
            name: the name of the value.
            value: the value.
            aliases: other names of it, which are not listed.

        Raises:
            ValueError: if the name or an alias is registered already.
        """
        for key in (name, *aliases):
            if key in self._values or key in self._aliases:
                raise ValueError(f"{self.kind} {key!r} is registered twice; choose another name")
        self._values[name] = value
        self._aliases.update(dict.fromkeys(aliases, name))
        return value

    def register(self, name: str) -> Callable[[T], T]:
        """Returns a decorator that adds a function or class under `name`."""
        return lambda value: self.add(name, value)

    def __getitem__(self, name: str | int) -> T:
        key = str(name)
        key = self._aliases.get(key, key)
        if key not in self._values:
            numbers = self._aliases if key.removeprefix("-").isdigit() else {}
            raise UnknownNameError(self.kind, name, numbers or self._values)
        return self._values[key]

    def __contains__(self, name: object) -> bool:
        return str(name) in self._values or str(name) in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> list[tuple[str, T]]:
        """Returns pairs of names and values, sorted by name."""
        return [(name, self._values[name]) for name in self]

    def values(self) -> list[T]:
        """Returns the values, sorted by name."""
        return [self._values[name] for name in self]
