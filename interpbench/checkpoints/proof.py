"""What a certificate file must hold before anything is said of it; `training.certificate` makes them."""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_json


class Rate(TypedDict):
    """How many rows came out right."""

    rate: float
    lower: float
    wrong: int
    rows: int


class NodeRate(Rate):
    """The same for a node of the circuit: its variables, and the rows on which swapping them matters."""

    variables: list[str]
    effective: Rate


class Proof(TypedDict):
    """The parts of a certificate that are read."""

    enumerated: bool
    pairs: int
    settings: dict[str, Any]
    target: float
    demands: list[str]
    accuracy: Rate
    iia: dict[str, NodeRate]
    siia: dict[str, Rate]
    siia_all_nodes: Rate
    edges: dict[str, Rate]
    all_edges: Rate
    required_effect: dict[str, float]
    margin: float
    margin_kind: str
    stress: dict[str, float]
    failures: list[str]
    certified: bool


def read_proof(path: Path) -> dict[str, Any] | None:
    """Reads a certificate, None if there is none.

    Raises:
        CheckpointError: one line, if it is damaged.
    """
    if not path.exists():
        return None
    data = read_json(path, CheckpointError)
    try:
        TypeAdapter(Proof).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path} is damaged: {place[:99]}: {first['msg']}") from None
    return data
