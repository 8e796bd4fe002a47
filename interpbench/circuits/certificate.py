"""A certificate: what was counted of a network, as types that check themselves. Needs no torch.

A certificate holds no verdict: what a reader makes of it is `grades`. It counts, for each kind of
intervention, how many rows (base/source pairs with an answer) came out wrong.
"""

import math
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationInfo,
    model_serializer,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from interpbench.core.clopper_pearson import lower_bound, upper_bound
from interpbench.core.config import STRICT, Sha256, Share, Steps, checked
from interpbench.core.errors import CheckpointError

T = TypeVar("T")

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
ShortName = Annotated[str, Field(max_length=40)]
Looks = Annotated[int, Field(ge=0, le=64)]
EdgeRows = Annotated[int, Field(ge=0, le=10**15)]
"""How many pairs of an edge and a row."""
Draw = Literal["task", "strata", "pairs"]
"""Where rows come from: the task's distribution, even draws from its strata, or all pairs of inputs."""
RandomDraw = Literal["task", "strata"]
RANDOM_DRAWS: tuple[RandomDraw, ...] = ("task", "strata")
VacuousKind = Literal["effective", "effective_positions"]
"""Kinds of swaps that may change no output whatever is swapped."""
AttackedKind = Literal["nodes", "edges"]
ATTACKED: tuple[AttackedKind, ...] = ("nodes", "edges")
"""Of what an adversary searches the worst set."""
ABSENT = ("identity", "seed", "proved")
"""Keys that a file leaves out where their value is None."""


def _in_file(value: T, info: ValidationInfo) -> T:
    """Refuses, in a file, what only a value in memory may be: None for a missing key, an infinite number.

    A network whose logits overflow has an infinite margin, which is shown, and cannot be written.
    """
    if info.mode == "json":
        if value is None:
            raise PydanticCustomError("null", "Input may be missing, but not null")
        if isinstance(value, float) and not math.isfinite(value):
            raise PydanticCustomError("finite_number", "Input should be a finite number")
    return value


InFile = AfterValidator(_in_file)
FiniteInFile = Annotated[float, Field(allow_inf_nan=True), InFile]


@dataclass(frozen=True, config=STRICT)
class Rate:
    """How many rows came out wrong.

    Attributes:
        wrong: how many.
        rows: of how many.
        looks: after how many looks at more and more rows it was settled, those of certificates of the same
            training that failed before included; 0 if these are all rows there are.

    Raises:
        ValueError: if there are more wrong rows than rows.
    """

    wrong: Steps
    rows: Steps
    looks: Looks

    def __post_init__(self) -> None:
        if self.wrong > self.rows:
            raise ValueError(f"{self.wrong} wrong of {self.rows} rows is no rate")

    @property
    def share(self) -> float:
        """The share of right rows; 1 for no rows."""
        return 1 - self.wrong / self.rows if self.rows else 1.0

    def bound(self, confidence: float) -> float:
        """Returns what the rate is at least: its share if these are all rows, else its lower bound.

        It is one-sided, and holds for all looks together with this confidence; 0 if there are no rows.
        """
        if not self.rows:
            return 0.0
        if not self.looks:
            return self.share
        return lower_bound(self.rows - self.wrong, self.rows, level(confidence, self.looks))

    def plus(self, wrong: int, rows: int) -> "Rate":
        """Returns the rate with more rows, so many of them wrong; negative numbers take rows away."""
        return Rate(self.wrong + wrong, self.rows + rows, self.looks)


Rates = dict[Draw, Rate]
"""The rates of one place, by where their rows come from."""


@dataclass(frozen=True, config=STRICT)
class Attack:
    """The worst set that a search found, measured on fresh rows.

    Attributes:
        rates: on draws from the task's distribution, and from its strata.
        places: what it patches.
        sources: which of its sources each of them takes its value from.
        candidates: how many sets were tried, and
        searched_rows: on how many rows in all.
        by: which search found it.
    """

    rates: dict[RandomDraw, Rate]
    places: tuple[PlaceName, ...]
    sources: tuple[Annotated[int, Field(ge=0, le=64)], ...]
    candidates: Steps
    searched_rows: Steps
    by: ShortName


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Screen:
    """How single edges were measured: which (edge, row) were run, and what may have been missed.

    Attributes:
        share: an edge whose estimated effect on a row is at least this share of what it takes to make the
            answer wrong is run on it.
        items: inert edges times rows.
        run: how many of these were run because of their estimate, for want of a bound, or because all of
            their edge were.
        proved: of how many a bound says that no answer can change (None where it is not said); they are
            sampled, like those with a small estimate.
        sampled: how many of the others were run, drawn at random.
        wrong: how many of those came out wrong.
        largest: the largest share of what it takes that was found among them.
        edges: of each edge that was passed over on some rows, on how many; how many of these were run all the
            same; how many of those came out wrong. An edge that did is run on every row from then on.
    """

    share: Share
    items: EdgeRows
    run: EdgeRows
    proved: Annotated[EdgeRows | None, InFile] = None
    sampled: Steps
    wrong: Steps
    largest: FiniteInFile
    edges: dict[PlaceName, tuple[Steps, Steps, Steps]]

    @property
    def passed_over(self) -> int:
        """How many (edge, row) were not run, but for a sample."""
        return self.items - self.run

    @model_serializer(mode="wrap")
    def _as_in_file(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        return _without_absent(dump(self))


@dataclass(frozen=True, config=STRICT)
class Identity:
    """SHA-256 of what a certificate is of: the file of weights, the truth, the task (program and domain)."""

    weights: Sha256
    truth: Sha256
    task: Sha256


@dataclass(frozen=True, config=STRICT)
class HeldOut:
    """Which share of the drawn bases and sources training could not draw."""

    bases: Share
    sources: Share


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Certificate:
    """What was counted of a network.

    Attributes:
        identity: what it is of; None as long as it has not been written beside its network.
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
        margin: the smallest one between the right class and another, or the largest error of a number.
        stress: accuracy with all forbidden nodes set to what never occurs.
        attempts: how many certificates were tried before in the same training, on rows of their own.
        settings: how much was measured.
        seed: of all draws: bounds hold for a seed that was chosen before anything was measured.
    """

    format: Literal[2]
    identity: Annotated[Identity | None, InFile] = None
    all_pairs: bool
    trained_on_all: bool
    held_out: HeldOut | None
    strata: tuple[Annotated[str, Field(max_length=80)], ...]
    variables: dict[PlaceName, tuple[Annotated[str, Field(max_length=256)], ...]]
    rates: dict[Kind, dict[Name, Rates]]
    vacuous: dict[VacuousKind, tuple[PlaceName, ...]]
    required_effect: dict[PlaceName, Share]
    screen: Screen | None
    attacks: dict[AttackedKind, Attack]
    margin: FiniteInFile
    margin_kind: Literal["largest error", "smallest logit margin"]
    stress: dict[ShortName, Share]
    attempts: Steps
    settings: dict[ShortName, int | float | bool | None]
    seed: Annotated[Annotated[int, Field(ge=0, lt=2**64)] | None, InFile] = None

    @model_serializer(mode="wrap")
    def _as_in_file(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        return _without_absent(dump(self))

    def to_json(self) -> dict[str, JsonValue]:
        """Returns plain data, as `certificate.json` holds it."""
        return TypeAdapter(Certificate).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: object, where: object = "a certificate") -> "Certificate":
        """Reads what `to_json` wrote.

        Raises:
            CheckpointError: one line that begins with `where`, if anything is missing, unknown or ill-typed.
        """
        return checked(cls, data, where, CheckpointError)

    def may_miss(self, confidence: float) -> float | None:
        """Returns the largest share of (edge, row) that the screen of edges may have missed, on average.

        There is one look in each certificate; earlier ones of the same training count. None if all were run.
        """
        screen = self.screen
        if screen is None or screen.sampled >= screen.passed_over:
            return None
        missed = upper_bound(screen.wrong, screen.sampled, level(confidence, 1 + self.attempts))
        return missed * screen.passed_over / screen.items

    def may_miss_at_most(self, confidence: float) -> tuple[str, float]:
        """Returns the single edge of which the screen may have missed most, and the share of its rows."""
        miss = level(confidence, 1 + self.attempts)
        shares, rates = {"no edge": 0.0}, self.rates.get("edges", {})
        for edge, (passed, sampled, wrong) in self.screen.edges.items() if self.screen else ():
            if sampled < passed:
                rows = sum(rate.rows for rate in rates.get(edge, {}).values())
                shares[edge] = min(1.0, upper_bound(wrong, sampled, miss) * passed / max(1, rows))
        edge = max(shares, key=lambda name: shares[name])
        return edge, shares[edge]


def _without_absent(data: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in data.items() if value is not None or name not in ABSENT}


def level(confidence: float, look: int) -> float:
    """Returns how often a bound at a look, from 1, may be wrong: a quarter, an eighth, … of 1 − confidence.

    A look of a certificate that others of the same training came before counts as one as many later. So all
    looks of all of them together are wrong as seldom as is said, however many there are.
    """
    return (1 - confidence) / 2 ** (look + 1)


def name_of(kind: Kind, place: str) -> str:
    """Returns what a rate of a kind is about, in words."""
    return WHAT[kind] if kind == "accuracy" else f"{WHAT[kind]} {place}"
