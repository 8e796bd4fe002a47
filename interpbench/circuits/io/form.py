"""The protocol of a file format (a form) for scores and circuits, and the registry of all formats.

Letters of shapes: W writers (nodes), R readers.
"""

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
"""The suffix of the files of all formats that are JSON."""


@dataclass(frozen=True)
class Contents:
    """The contents of a file to be written.

    Attributes:
        graph: the network's graph.
        scores: the scores of edges and nodes; None for a circuit without scores.
        circuit: the edges in the circuit, bool `[R, W]`; None for scores without a circuit.
        d_model: the width of the network's residual stream.
    """

    graph: Graph
    scores: Scores | None = None
    circuit: np.ndarray | None = None
    d_model: int = 1

    @cached_property
    def places(self) -> dict[Edge, tuple[int, int]]:
        """All edges, each with its place `(reader, writer)` in arrays."""
        rows, columns = np.nonzero(self.graph.legal)
        return dict(zip(self.graph.edges, zip(rows.tolist(), columns.tolist())))

    @property
    def kept(self) -> dict[Edge, tuple[int, int]]:
        """The edges in the circuit (all edges if there is no circuit), each with its place."""
        return {edge: at for edge, at in self.places.items() if self.circuit is None or self.circuit[at]}


class Form(Protocol):
    """A file format for scores and circuits.

    Attributes:
        title: the name of the format in error messages.
        suffix: the suffix of its files; `.json` for all formats that are JSON.
    """

    title: ClassVar[str]
    suffix: ClassVar[str]

    def recognises(self, document: object) -> bool:
        """Returns whether a document is in this format; its suffix is that of the format."""
        ...

    def read(self, document: object, found: FoundScores) -> None:
        """Reads scores and circuit from a document into `found`.

        Args:
            document: the parsed JSON if the format is JSON, otherwise the text of the file.
            found: collects the scores and the circuit, by the names of edges and nodes.

        Raises:
            InterpBenchError: if the document is damaged or does not fit the graph.
        """
        ...

    def write(self, contents: Contents) -> str:
        """Returns the text of a file with these contents."""
        ...


_forms: Registry[Form] = Registry("form")


def form(name: str) -> Callable[[type[Form]], type[Form]]:
    """Returns a decorator that registers the class of a format under `name`."""

    def register(made: type[Form]) -> type[Form]:
        _forms.add(name, made())
        return made

    return register


@cache
def forms() -> Registry[Form]:
    """Returns the registry of all formats; the first call imports every file of this folder."""
    package = importlib.import_module("interpbench.circuits.io")
    for module in sorted(info.name for info in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"{package.__name__}.{module}")
    return _forms
