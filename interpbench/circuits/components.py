"""Nodes, readers and edges as values, and the only code that turns them into text and back.

A *node* writes to the residual stream: the embedding, a head, an MLP. A *reader* reads it: a head's
query, key or value input, an MLP's input, the logits. An *edge* is (node, reader). The text form is
that of EAP-IG and MIB (`a0.h1`, `m0`, `a0.h1<q>`, `logits`), with `embed` for what they call `input`.
"""

import re
from dataclasses import dataclass
from typing import Literal

from interpbench.core.errors import InterpBenchError

Slot = Literal["q", "k", "v", "mlp", "logits"]
SLOTS: tuple[Literal["q", "k", "v"], ...] = ("q", "k", "v")


@dataclass(frozen=True, order=True)
class Node:
    """A writer: `layer` is -1 for the embedding, `head` is None for embedding and MLPs."""

    layer: int
    head: int | None = None

    def __str__(self) -> str:
        if self.layer < 0:
            return "embed"
        return f"m{self.layer}" if self.head is None else f"a{self.layer}.h{self.head}"


@dataclass(frozen=True, order=True)
class Reader:
    """A place that reads the residual stream."""

    layer: int
    slot: Slot
    head: int | None = None

    def __str__(self) -> str:
        if self.slot == "logits":
            return "logits"
        return f"m{self.layer}" if self.slot == "mlp" else f"a{self.layer}.h{self.head}<{self.slot}>"

    @property
    def destination(self) -> str:
        """The reader's name with q, k and v of a head merged: `a0.h1`, `m0`, `logits`."""
        return str(self).split("<")[0]


EMBED = Node(-1)
_NODE = re.compile(r"a(\d+)\.h(\d+)|m(\d+)")


def parse_node(text: str) -> Node:
    """Returns the node that `text` names.

    Raises:
        InterpBenchError: if it names none.
    """
    if text in ("embed", "input"):
        return EMBED
    match = _NODE.fullmatch(text)
    if not match:
        raise InterpBenchError(f"{text!r} is not a node; write embed, a0.h1 (layer 0, head 1) or m0")
    layer, head, mlp = match.groups()
    return Node(int(mlp)) if mlp is not None else Node(int(layer), int(head))


@dataclass(frozen=True)
class Edge:
    """What `source` writes, as `target` reads it."""

    source: Node
    target: Reader

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"
