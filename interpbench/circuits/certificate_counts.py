"""What a certificate says of a network, as counts; what a reader makes of it is `grades`.

A certificate holds no verdict. It counts, for each kind of intervention, how many rows (base/source pairs
with an answer) came out wrong.
"""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field, with_config
from typing_extensions import TypedDict

from interpbench.core.config import STRICT, Finite, Sha256, Share, Steps

FORMAT = 2
Kind = Literal[
    "accuracy",
    "variables",
    "effective",
    "positions",
    "effective_positions",
    "nodes",
    "node_sets",
    "edges",
    "edge_sets",
    "required_edges",
    "effective_edges",
]
EFFECTIVE: tuple[Kind, ...] = ("effective", "effective_positions", "effective_edges")
"""Kinds of which only those rows count on which the intervention changes the program's output."""
ALL = "all"
SUBSETS, OWN_SOURCES = "subsets", "subsets, a source for each"
SETS = (ALL, SUBSETS, OWN_SOURCES)
"""The sets of forbidden nodes, or of inert edges, that are patched together."""
WHAT: dict[Kind, str] = {
    "accuracy": "no intervention",
    "variables": "swap of",
    "effective": "effective swap of",
    "positions": "swap at one position of",
    "effective_positions": "effective swap at one position of",
    "nodes": "forbidden node",
    "node_sets": "forbidden nodes:",
    "edges": "inert edge",
    "edge_sets": "inert edges:",
    "required_edges": "required edge",
    "effective_edges": "effective required edge",
}
PlaceName = Annotated[str, Field(pattern=r"^[a-z0-9.<>-]{1,60}$")]
"""A node or an edge."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9.<>, -]{1,60}$")]
"""A node, an edge, or a set of them."""


@with_config(STRICT)
class Rate(TypedDict):
    """How many rows came out wrong.

    Attributes:
        looks: after how many looks at more and more rows it was settled, those of certificates of the same
            training that failed before included; 0 if these are all rows there are.
    """

    wrong: Steps
    rows: Steps
    looks: Annotated[int, Field(ge=0, le=64)]


def _adds_up(rate: Any) -> Any:
    """Raises ValueError for a rate with more wrong rows than rows."""
    if rate["wrong"] > rate["rows"]:
        raise ValueError(f"{rate['wrong']} wrong of {rate['rows']} rows is no rate")
    return rate


Checked = Annotated[Rate, AfterValidator(_adds_up)]


@with_config(STRICT)
class Attack(TypedDict):
    """The worst set that a search found, measured on fresh rows.

    Attributes:
        rates: on draws from the task's distribution, and from its strata.
        places: what it patches.
        sources: which of its sources each of them takes its value from.
        candidates: how many sets were tried, and
        searched_rows: on how many rows in all.
        by: which search found it.
    """

    rates: dict[Literal["task", "strata"], Checked]
    places: list[PlaceName]
    sources: list[Annotated[int, Field(ge=0, le=64)]]
    candidates: Steps
    searched_rows: Steps
    by: Annotated[str, Field(max_length=40)]


@with_config(STRICT)
class Screen(TypedDict):
    """How single edges were measured: which (edge, row) were run, and what may have been missed.

    Attributes:
        share: an edge whose estimated effect on a row is at least this share of what it takes to make the
            answer wrong is run on it.
        items: inert edges times rows.
        run: how many of these were run because of their estimate, for want of a bound, or because all of
            their edge were.
        proved: of how many a bound says that no answer can change (0 where it is not said); they are sampled,
            like those with a small estimate.
        sampled: how many of the others were run, drawn at random.
        wrong: how many of those came out wrong.
        largest: the largest share of what it takes that was found among them.
        edges: of each edge that was passed over on some rows, on how many; how many of these were run all the
            same; how many of those came out wrong. An edge that did is run on every row from then on.
    """

    share: Share
    items: Annotated[int, Field(ge=0, le=10**15)]
    run: Annotated[int, Field(ge=0, le=10**15)]
    proved: NotRequired[Annotated[int, Field(ge=0, le=10**15)]]
    sampled: Steps
    wrong: Steps
    largest: Finite
    edges: dict[PlaceName, Annotated[list[Steps], Field(min_length=3, max_length=3)]]


@with_config(STRICT)
class Identity(TypedDict):
    """SHA-256 of what a certificate is of: the file of weights, the truth, the task (program and domain)."""

    weights: Sha256
    truth: Sha256
    task: Sha256


@with_config(STRICT)
class HeldOut(TypedDict):
    """Which share of the drawn bases and sources training could not draw."""

    bases: Share
    sources: Share


CheckedByDraw = dict[Literal["task", "strata", "pairs"], Checked]
"""Rates on draws from the task's distribution, on even draws from its strata, or on all pairs."""


@with_config(STRICT)
class Proof(TypedDict):
    """A certificate.

    Attributes:
        all_pairs: whether rates are over all pairs of inputs, rather than over drawn ones.
        trained_on_all: whether training may draw any input, because there are so few.
        held_out: of drawn pairs; None if training may draw any input.
        strata: the names of the strata.
        variables: what each node of the circuit carries.
        rates: kind to place to draws.
        vacuous: nodes of the circuit no swap of which, or no swap at one position, changes an output: nothing
            is known of them.
        required_effect: of each required node or edge, the share of rows on which patching it does something.
        screen: of single edges, if they were screened.
        attacks: on forbidden nodes and on inert edges.
        attempts: how many certificates were tried before in the same training, on rows of their own.
        seed: of all draws: bounds hold for a seed that was chosen before anything was measured.
    """

    format: Literal[2]
    identity: NotRequired[Identity]
    all_pairs: bool
    trained_on_all: bool
    held_out: HeldOut | None
    strata: list[Annotated[str, Field(max_length=80)]]
    variables: dict[PlaceName, list[Annotated[str, Field(max_length=256)]]]
    rates: dict[Kind, dict[Name, CheckedByDraw]]
    vacuous: dict[Literal["effective", "effective_positions"], list[PlaceName]]
    required_effect: dict[PlaceName, Share]
    screen: Screen | None
    attacks: dict[Literal["nodes", "edges"], Attack]
    margin: Finite
    margin_kind: Literal["largest error", "smallest logit margin"]
    stress: dict[Annotated[str, Field(max_length=40)], Share]
    attempts: Steps
    seed: NotRequired[Annotated[int, Field(ge=0, lt=2**64)]]
    settings: dict[Annotated[str, Field(max_length=40)], int | float | bool | None]


def level(confidence: float, look: int) -> float:
    """Returns how often a bound at a look, from 1, may be wrong: a quarter, an eighth, … of 1 − confidence.

    A look of a certificate that others of the same training came before counts as one as many later. So all
    looks of all of them together are wrong as seldom as is said, however many there are.
    """
    return (1 - confidence) / 2 ** (look + 1)


def name_of(kind: Kind, place: str) -> str:
    """Returns what a rate of a kind is about, in words."""
    return WHAT[kind] if kind == "accuracy" else f"{WHAT[kind]} {place}"


def passed_over(screen: Any) -> int:
    """Returns how many (edge, row) were not run, but for a sample."""
    return screen["items"] - screen["run"]


def share_of(rate: Any) -> float:
    """Returns the share of right rows; 1 for no rows."""
    return 1 - rate["wrong"] / rate["rows"] if rate["rows"] else 1.0
