"""The format of ACDC: a JSON list of edges `[child hook, index, parent hook, index]`.

The child is the reader, the parent the node. Each edge may have an effect size.
"""

import json
from typing import ClassVar

from interpbench.circuits.io.form import JSON, Contents, form
from interpbench.circuits.io.found import FoundScores, checked_name, finite_number, short
from interpbench.circuits.naming import Hook, acdc_hooks, index_name, parse_hooks, parse_index
from interpbench.core.errors import ScoresError


@form("acdc")
class AcdcEdges:
    """A list of the edges in a circuit: each is a row, or a pair of a row and an effect size."""

    title: ClassVar[str] = "a list of edges"
    suffix: ClassVar[str] = JSON

    def recognises(self, document: object) -> bool:
        """Returns whether a document is a list."""
        return isinstance(document, list)

    def read(self, document: object, found: FoundScores) -> None:
        """Reads a list of edges.

        Edges that are not in the list are not in the circuit, and rank last. If an edge is in the list twice,
        once from the token and once from the position embedding, the larger effect size counts.
        """
        assert isinstance(document, list)
        sizes = dict[tuple[int, int], float | None]()
        for row in document:
            pair = isinstance(row, list) and len(row) == 2 and isinstance(row[0], list)
            names, effect = row if pair else (row, None)
            if not (isinstance(names, list) and len(names) == 4):
                raise ScoresError(f"{short(row)} is not [child hook, index, parent hook, index]")
            edge = parse_hooks(_hook(*names[:2]), _hook(*names[2:]), found.graph.n_layers)
            size = None if effect is None else finite_number(str(names[0]), effect)
            if edge is not None:
                place = found.place(edge, str(edge))
                before = sizes.get(place)
                sizes[place] = size if before is None else before if size is None else max(before, size)
        if not sizes:
            raise ScoresError("the file holds no edge of the residual stream")
        effects = [size for size in sizes.values() if size is not None]
        scored = len(effects) == len(sizes)
        legal = found.graph.legal
        if scored:
            found.edges[legal] = min(effects) - 1
        found.member[legal] = False
        for place, size in sizes.items():
            found.put(place, size if scored else None, True)

    def write(self, contents: Contents) -> str:
        """Returns the edges in the circuit, one on each line, with scores as effect sizes."""
        rows: list[object] = []
        for edge, at in contents.kept.items():
            row = [part for name, index in acdc_hooks(edge) for part in (name, index_name(index))]
            rows.append(row if contents.scores is None else [row, float(contents.scores.edges[at])])
        return "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"


def _hook(name: object, index: object) -> Hook:
    """Returns a hook and its index, which is `[null, null, 3]` or the text `[:, :, 3]`.

    Raises:
        ScoresError: if they are not a hook and an index.
    """
    parts = parse_index(index) if isinstance(index, str) else index
    if isinstance(name, str) and isinstance(parts, list | tuple) and len(parts) <= 3:
        if all(part is None or type(part) is int for part in parts):
            return checked_name(name), tuple(parts)
    raise ScoresError(f"{short(name)} {short(index)} is not a hook and an index [:, :, 3]")
