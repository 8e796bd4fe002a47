"""Facts about each task of the catalogue, which are measured once and stored in `task_records.json`.

`interpbench tasks --write` measures them. Listing and showing tasks then needs neither Tracr's compiler nor
torch.
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
    """Facts about a task in its default network.

    Attributes:
        description: what the task computes, in a sentence.
        layers: the number of layers of the network.
        nodes: the numbers of required, allowed and forbidden nodes, the embedding included.
        edges: the numbers of required, allowed and forbidden q/k/v edges; free ones count as required.
        trivial: the reason why the circuit is trivial; None if it is not.
        most_frequent: the share of the most frequent output among the scored positions of drawn inputs.
        unreached: the output classes that no drawn input (or, if the domain is enumerated, no input at all)
            has.
        margin: the compiled network's smallest margin between the right class and the next, or its largest
            error of a numerical output; None if nothing is compiled.
        truth: the names of all required, allowed and free nodes and edges.
        sha256: the hash of the task (`identity.task_sha256`).
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
