"""The certificate of a network, as types that are checked when they are read. Needs no torch.

A certificate counts, for each kind of intervention, how many rows came out wrong. A row is a base with one
source or several, to which the program has an answer. A certificate holds no verdict: `grades` derives one,
by a standard that the reader chooses.
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
"""The version of the file format that is written and read."""
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
"""The kinds of rates; `WHAT` says in words what each is about."""
EFFECTIVE: tuple[Kind, ...] = ("effective", "effective_positions", "effective_edges")
"""The kinds that count only rows in which the intervention changes the program's output."""
ALL = "all"
SUBSETS, OWN_SOURCES = "subsets", "subsets, a source for each"
SETS = (ALL, SUBSETS, OWN_SOURCES)
"""The sets of forbidden nodes, or of inert edges, that are patched together: all of them; random subsets from
one source; random subsets in which each node or edge has a source of its own."""
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
"""What was done to the network, in the words of a message; the name of a node, edge or set follows."""
PlaceName = Annotated[str, Field(pattern=r"^[a-z0-9.<>-]{1,60}$")]
"""The name of a node or an edge."""
Name = Annotated[str, Field(pattern=r"^[a-z0-9.<>, -]{1,60}$")]
"""The name of a node, of an edge, or of a set of them (`SETS`)."""
ShortName = Annotated[str, Field(max_length=40)]
Looks = Annotated[int, Field(ge=0, le=1000)]
"""A number of looks: times at which a growing sample of rows was counted, to decide whether to go on."""
EdgeRows = Annotated[int, Field(ge=0, le=10**15)]
"""A number of pairs of an edge and a row."""
Draw = Literal["task", "strata", "pairs"]
"""Where rows come from: `task`, random draws from the task's distribution; `strata`, as many random draws
from each of its strata; `pairs`, all pairs of inputs."""
RandomDraw = Literal["task", "strata"]
RANDOM_DRAWS: tuple[RandomDraw, ...] = ("task", "strata")
"""The draws of which rates are estimates, with bounds."""
VacuousKind = Literal["effective", "effective_positions"]
"""The kinds of swaps of which a node may have none: no swap changes the program's output."""
AttackedKind = Literal["nodes", "edges"]
ATTACKED: tuple[AttackedKind, ...] = ("nodes", "edges")
"""The adversary searches for the worst set of forbidden nodes, and for that of inert edges."""
ABSENT = ("identity", "seed", "proved", "effects", "early", "early_at")
"""The keys that are left out of a file if their value is None."""


def _in_file(value: T, info: ValidationInfo) -> T:
    """Refuses None and infinite numbers in a file; a value in memory may be either.

    A network whose logits overflow has an infinite margin, which can be shown but not written.
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
        wrong: the number of wrong rows.
        rows: the number of rows.
        looks: the number of looks at a growing sample of rows, including those of earlier, failed
            certificates of the same training; 0 if all rows there are were run.

    Raises:
        ValueError: if there are more wrong rows than rows.
    """

    wrong: Steps
    rows: Steps
    looks: Looks

    def __post_init__(self) -> None:
        if self.wrong > self.rows:
            raise ValueError(f"{self.wrong} of {self.rows} rows cannot be wrong")

    @property
    def share(self) -> float:
        """The share of rows that are right; 1 if there are no rows."""
        return 1 - self.wrong / self.rows if self.rows else 1.0

    def bound(self, confidence: float) -> float:
        """Returns a lower bound of the share of right rows; the share itself if all rows were run.

        The bound is one-sided, and holds for all looks together with this confidence. It is 0 if there are no
        rows.
        """
        if not self.rows:
            return 0.0
        if not self.looks:
            return self.share
        return lower_bound(self.rows - self.wrong, self.rows, level(confidence, self.looks))

    def plus(self, wrong: int, rows: int) -> "Rate":
        """Returns the rate with more rows, of which `wrong` are wrong; negative numbers take rows away."""
        return Rate(self.wrong + wrong, self.rows + rows, self.looks)


Rates = dict[Draw, Rate]
"""The rates of one node, edge or set, by where the rows come from."""


@dataclass(frozen=True, config=STRICT)
class Attack:
    """The worst set of forbidden nodes or inert edges that an adversary found, measured on new rows.

    Attributes:
        rates: the rates with the set patched, on draws from the task's distribution and from its strata.
        places: the nodes or edges of the set.
        sources: for each of them, which of the row's sources it takes its value from.
        candidates: how many sets the search tried.
        searched_rows: the number of rows on which they were tried, in total.
        by: the name of the search that found the set.
    """

    rates: dict[RandomDraw, Rate]
    places: tuple[PlaceName, ...]
    sources: tuple[Annotated[int, Field(ge=0, le=64)], ...]
    candidates: Steps
    searched_rows: Steps
    by: ShortName


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Screen:
    """The screen of single inert edges: on which rows each was run, and what may have been missed.

    The effect of patching an edge on a row is first estimated, as a share of the effect that would make the
    answer wrong. An (edge, row) with a large estimate is run. Of the others, which are passed over, a random
    sample is run to learn how many the estimate misses.

    Attributes:
        share: the smallest estimated share with which an (edge, row) is run.
        items: the number of (edge, row): inert edges times rows.
        run: how many (edge, row) were run because of their estimate, because no bound could be computed, or
            because their edge is run on all rows.
        proved: for how many (edge, row) a bound proves that the answer cannot change; None if unknown. They
            are among those passed over.
        sampled: how many of those passed over were run as a random sample.
        wrong: how many of the sample came out wrong.
        largest: the largest share that was measured in the sample.
        edges: for each edge that was passed over on some rows: on how many, how many of these rows were in
            the sample, and how many of the sample came out wrong. If any did, the edge is run on all later
            rows.
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
        """The number of (edge, row) that were passed over, the sample among them."""
        return self.items - self.run

    @model_serializer(mode="wrap")
    def _as_in_file(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        return _without_absent(dump(self))


@dataclass(frozen=True, config=STRICT)
class Identity:
    """What a certificate is about, as SHA-256 of three things.

    Attributes:
        weights: the file of weights.
        truth: the ground truth.
        task: the task's program and domain.
    """

    weights: Sha256
    truth: Sha256
    task: Sha256


@dataclass(frozen=True, config=STRICT)
class Effects:
    """How much single patched edges move the margin of the answer (a number: the output), on the average.

    Attributes:
        signal: the least that a required edge moves it.
        signal_at: that edge.
        noise: the most that a forbidden edge moves it.
        noise_at: that edge.
        rows: the number of rows that these are means over, each with the scored positions that it has.
        early: the most that a required edge moves it which is patched only as far as the task says that
            nothing moves (`Task.flat`); None if it says nothing of the sort.
        early_at: that edge.
    """

    signal: Annotated[float, Field(ge=0)]
    signal_at: PlaceName
    noise: Annotated[float, Field(ge=0)]
    noise_at: PlaceName
    rows: Steps
    early: Annotated[Annotated[float, Field(ge=0)] | None, InFile] = None
    early_at: Annotated[PlaceName | None, InFile] = None

    @model_serializer(mode="wrap")
    def _as_in_file(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        return _without_absent(dump(self))

    @property
    def ratio(self) -> float:
        """The ratio of signal to noise; infinite without noise."""
        return self.signal / self.noise if self.noise else math.inf


@dataclass(frozen=True, config=STRICT)
class HeldOut:
    """The shares of the certificate's bases and of its sources that training could not draw."""

    bases: Share
    sources: Share


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Certificate:
    """What was counted of a network under all kinds of interventions.

    Attributes:
        format: the version of the file format.
        identity: the weights, truth and task that were certified; None until the certificate is written
            beside its network.
        all_pairs: whether rates are over all pairs of inputs instead of over random draws.
        trained_on_all: whether training could draw every input, because the domain is small.
        held_out: the shares of held-out bases and sources; None if training could draw every input.
        strata: the names of the strata.
        variables: for each node of the circuit, the variables that it carries.
        rates: the rates, by kind, then by node, edge or set, then by draw.
        vacuous: for each kind of effective swaps, the nodes of the circuit of which no swap changes the
            program's output, so that nothing is known of them.
        required_effect: for each required node or edge, the share of rows on which patching it changes the
            network's answer.
        screen: how single edges were screened; None if none were.
        attacks: the worst set of forbidden nodes and that of inert edges which an adversary found.
        margin: the smallest margin, in logits, of the right class over another; for numbers the largest
            error.
        margin_kind: which of the two `margin` is.
        stress: accuracies with all forbidden nodes set to values that never occur, by the kind of value.
        effects: how much single patched edges move the margin; None if they were not measured.
        attempts: how many certificates were tried earlier in the same training, on rows of their own.
        settings: the settings of the measurement.
        seed: the seed of all draws. Bounds hold only if it was chosen before anything was measured.
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
    effects: Annotated[Effects | None, InFile] = None
    attempts: Steps
    settings: dict[ShortName, int | float | bool | None]
    seed: Annotated[Annotated[int, Field(ge=0, lt=2**64)] | None, InFile] = None

    @model_serializer(mode="wrap")
    def _as_in_file(self, dump: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        return _without_absent(dump(self))

    def to_json(self) -> dict[str, JsonValue]:
        """Returns the certificate as plain data, as in `certificate.json`."""
        return TypeAdapter(Certificate).dump_python(self, mode="json")

    @classmethod
    def from_json(cls, data: object, where: object = "a certificate") -> "Certificate":
        """Reads a certificate from plain data, as `to_json` returns it.

        Args:
            data: the plain data.
            where: the name of the file, with which an error message begins.

        Raises:
            CheckpointError: if anything is missing, unknown or ill-typed.
        """
        return checked(cls, data, where, CheckpointError)

    def may_miss(self, confidence: float) -> float | None:
        """Returns an upper bound of the share of wrong (edge, row) that the screen has missed in all.

        Each certificate is one look; earlier certificates of the same training count. The result is None if
        nothing was passed over.
        """
        screen = self.screen
        if screen is None or screen.sampled >= screen.passed_over:
            return None
        missed = upper_bound(screen.wrong, screen.sampled, level(confidence, 1 + self.attempts))
        return missed * screen.passed_over / screen.items

    def may_miss_at_most(self, confidence: float) -> tuple[str, float]:
        """Returns the edge of which the screen may have missed most, and a bound of the share of its rows."""
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
    """Returns the probability with which the bound at one look may be wrong: (1 − confidence) / 2^(look + 1).

    These probabilities sum to less than 1 − confidence, so the bounds of all looks hold together with this
    confidence, however many there are. The first look is 1; if other certificates of the same training came
    before, their number is added.
    """
    return (1 - confidence) / 2 ** (look + 1)


def name_of(kind: Kind, place: str) -> str:
    """Returns in words what a rate is about: `forbidden node a0.h1`, `effective swap of m1`."""
    return WHAT[kind] if kind == "accuracy" else f"{WHAT[kind]} {place}"
