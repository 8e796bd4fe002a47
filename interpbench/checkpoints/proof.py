"""What a certificate file must hold before anything is said of it; `training.certificate` makes them."""

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import AfterValidator, Field, with_config
from typing_extensions import TypedDict

from interpbench.core.config import STRICT, Finite, Share, Steps, checked
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_json

R = TypeVar("R", bound="Rate")
PlaceName = Annotated[str, Field(pattern=r"^[a-z0-9.<>-]{1,60}$")]
"""A node or an edge."""


@with_config(STRICT)
class Rate(TypedDict):
    """How many rows came out right."""

    rate: Share
    lower: Share
    wrong: Steps
    rows: Steps


def _adds_up(rate: R) -> R:
    """Raises ValueError for a rate that is not the share of its rows, or a bound above it."""
    share = 1 - rate["wrong"] / rate["rows"] if rate["rows"] else 1.0
    if rate["wrong"] > rate["rows"] or abs(share - rate["rate"]) > 1e-9 or rate["lower"] > share + 1e-9:
        raise ValueError(f"{rate['wrong']} wrong of {rate['rows']} rows is no rate of {rate['rate']}")
    return rate


Checked = Annotated[Rate, AfterValidator(_adds_up)]


@with_config(STRICT)
class NodeRate(Rate):
    """The same for a node of the circuit: its variables, and the rows on which swapping them matters."""

    variables: list[str]
    effective: Checked


@with_config(STRICT)
class EdgeRate(Rate):
    """The same for an edge, with what a first look gave where there was a second one."""

    first_look: NotRequired[Checked]


@with_config(STRICT)
class Settings(TypedDict):
    """The settings that it was made with."""

    enumerate_up_to: NotRequired[Steps]
    pairs: NotRequired[Steps]
    edge_pairs: NotRequired[Steps]
    target: NotRequired[Share | None]
    confidence: Share


@with_config(STRICT)
class Proof(TypedDict):
    """The parts of a certificate."""

    enumerated: bool
    pairs: Steps
    settings: Settings
    target: Share
    demands: list[Literal["accuracy", "iia", "siia", "edges"]]
    accuracy: Checked
    iia: dict[PlaceName, Annotated[NodeRate, AfterValidator(_adds_up)]]
    siia: dict[PlaceName, Checked]
    siia_all_nodes: Checked
    edges: dict[PlaceName, Annotated[EdgeRate, AfterValidator(_adds_up)]]
    all_edges: Checked
    required_effect: dict[PlaceName, Share]
    margin: Finite
    margin_kind: Literal["largest error", "smallest logit margin"]
    stress: dict[Annotated[str, Field(max_length=40)], Share]
    failures: list[str]
    certified: bool


def read_proof(path: Path) -> dict[str, Any] | None:
    """Reads a certificate, None if there is none.

    Raises:
        CheckpointError: one line, if it is damaged, or says that it is certified and what fails.
    """
    if not path.exists():
        return None
    data = read_json(path, CheckpointError)
    checked(Proof, data, path, CheckpointError)
    if data["certified"] == bool(data["failures"]):
        raise CheckpointError(f"{path} is damaged: certified is {data['certified']}, but not its failures")
    return data
