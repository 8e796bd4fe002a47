"""What is known of each task of the catalogue, measured once and stored beside it.

`interpbench tasks --write` measures; listing and showing tasks then need neither Tracr's compiler nor torch.
"""

from functools import cache
from pathlib import Path

from pydantic.dataclasses import dataclass

from interpbench.circuits.ground_truth import TruthNames
from interpbench.core.config import STRICT, Sha256, convert
from interpbench.core.files import read_json

FILE = Path(__file__).with_name("task_records.json")


@dataclass(frozen=True, config=STRICT)
class TaskRecord:
    """Facts of a task in its default network.

    Attributes:
        description: what the task computes, in a sentence.
        layers: of the network.
        nodes: how many of the network's nodes, the embedding among them, are required, allowed, forbidden.
        edges: the same of its q/k/v edges; those that the program leaves free count as required.
        trivial: why the circuit is trivial, if it is.
        most_frequent: the share of the most frequent output among scored positions of drawn inputs.
        unreached: classes that no input that was drawn (or, of a small domain, no input at all) reaches.
        margin: the compiled network's smallest margin between the right class and the next, or its largest
            error for a numerical output; None where nothing is compiled.
        truth: the names of all required, allowed and free nodes and edges.
        sha256: of the task (`identity.task_sha256`).
    """

    description: str
    layers: int
    nodes: tuple[int, int, int]
    edges: tuple[int, int, int]
    trivial: str | None
    most_frequent: float
    unreached: tuple[str, ...]
    margin: float | None
    truth: TruthNames
    sha256: Sha256


@cache
def records() -> dict[str, TaskRecord]:
    """Returns the stored record of every task, by name."""
    return {name: convert(TaskRecord, data, name) for name, data in read_json(FILE).items()}
