"""What a form of files is, and the registry of all of them."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar, Protocol

import numpy as np

from interpbench.circuits.graph import Graph
from interpbench.circuits.io.found import FoundScores
from interpbench.circuits.naming import Edge
from interpbench.circuits.scores import Scores
from interpbench.core.registry import Registry

JSON = ".json"
"""How the names of files end that hold JSON, which several forms do."""


@dataclass(frozen=True)
class Contents:
    """What a file is to say.

    Attributes:
        graph: of the network.
        scores: of its edges; None if edges are only in the circuit or not.
        circuit: `[reader, writer]` bool, the edges in the circuit; None if there is none.
        d_model: the network's width.
    """

    graph: Graph
    scores: Scores | None = None
    circuit: np.ndarray | None = None
    d_model: int = 1

    @cached_property
    def places(self) -> dict[Edge, tuple[int, int]]:
        """Every edge and its place `(reader, writer)`."""
        rows, columns = np.nonzero(self.graph.legal)
        return dict(zip(self.graph.edges, zip(rows.tolist(), columns.tolist())))

    @property
    def kept(self) -> dict[Edge, tuple[int, int]]:
        """The edges in the circuit, all if there is none, and their places."""
        return {edge: at for edge, at in self.places.items() if self.circuit is None or self.circuit[at]}


class Form(Protocol):
    """A form of files.

    Attributes:
        title: what such a file is, for people.
        suffix: how the names of such files end; `.json` for all forms in JSON.
    """

    title: ClassVar[str]
    suffix: ClassVar[str]

    def recognises(self, document: object) -> bool:
        """Whether a document, of which only the suffix is known, is of this form."""
        ...

    def read(self, document: object, found: FoundScores) -> None:
        """Puts what a document says into `found`.

        Args:
            document: what was parsed if the form is JSON, otherwise the text of the file.
            found: takes edges and nodes by their names.

        Raises:
            InterpBenchError: in one line, for a document that is damaged or not of the graph.
        """
        ...

    def write(self, contents: Contents) -> str:
        """Returns the text of a file."""
        ...


_forms: Registry[Form] = Registry("form")


def form(name: str) -> Callable[[type[Form]], type[Form]]:
    """Returns a decorator that registers a form under `name`."""

    def register(made: type[Form]) -> type[Form]:
        _forms.add(name, made())
        return made

    return register


@cache
def forms() -> Registry[Form]:
    """Returns all forms, importing every file of this folder once."""
    package = importlib.import_module("interpbench.circuits.io")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _forms
