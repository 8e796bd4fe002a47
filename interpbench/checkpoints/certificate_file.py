"""A certificate file, checked before anything is said of it: well-formed, complete, and of these weights.

What it counts is somebody's word, which `interpbench certify` checks. Which places it must say something of
is not: the truth and the alignment of the record say that.
"""

import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from interpbench.checkpoints.certificate_columns import PACKED, packed, text_of, unpacked
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, RECORD, WEIGHTS
from interpbench.checkpoints.record import ModelRecord, most_weights_bytes, read_record
from interpbench.circuits.certificate import (
    EFFECTIVE,
    FORMAT,
    OWN_SOURCES,
    RANDOM_DRAWS,
    SETS,
    SUBSETS,
    Certificate,
    Identity,
    Kind,
    Rates,
    name_of,
)
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import EMBED, parse_node
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_bytes, read_json, sha256, write_text
from interpbench.core.text import shown
from interpbench.tasks.task_records import records

log = logging.getLogger(__name__)
OLD = ("certified", "accuracy", "iia")
"""Keys of the first format, which had no number."""


class OldCertificateError(CheckpointError):
    """A certificate of an older format: it says nothing that can be read."""


class ForeignCertificateError(CheckpointError):
    """A certificate of other weights, of another truth, or of another task."""


class Places(NamedTuple):
    """What a certificate of a network must say something of.

    Attributes:
        carried: node of the circuit, but for the embedding, to the names of the variables that it carries.
        nodes: the forbidden nodes: all others.
        edges: the inert edges.
        required_nodes: those of the circuit that change an output.
        required_edges: q/k/v edges, and head edges that no single one of these stands for.
    """

    carried: dict[str, list[str]]
    nodes: list[str]
    edges: list[str]
    required_nodes: list[str]
    required_edges: list[str]

    @classmethod
    def of(cls, truth: Truth, alignment: Mapping[str, str]) -> "Places":
        """Returns the places of a network with this truth, and this alignment of variables to nodes."""
        carried: dict[str, list[str]] = {}
        for variable, node in alignment.items():
            if parse_node(node) != EMBED:
                carried.setdefault(str(parse_node(node)), []).append(variable)
        names = [str(node) for node in truth.graph.nodes if node != EMBED]
        inert = [*truth.names("qkv_edge", State.FORBIDDEN), *truth.names("qkv_edge", State.ALLOWED)]
        return cls(
            carried,
            [name for name in names if name not in carried],
            inert,
            [name for name in truth.names("node", State.REQUIRED) if name != str(EMBED)],
            truth.required,
        )

    def of_kind(self, kind: Kind) -> list[str]:
        """Returns the names under which a certificate lists its rates of error of a kind.

        Depending on the kind, these are the names of nodes, of edges, or of ways to draw
        sets of these. Accuracy is not asked for here: it is a single rate.

        Args:
            kind: the kind of intervention.
        """
        named: dict[str, Iterable[str]] = {
            **dict.fromkeys(("variables", "effective", "positions", "effective_positions"), self.carried),
            "nodes": self.nodes,
            "edges": self.edges,
            "node_sets": SETS if self.nodes else (),
            "edge_sets": SETS if self.edges else (),
            **dict.fromkeys(("required_edges", "effective_edges"), self.required_edges),
        }
        return list(named[kind])


def read_certificate(path: Path, record: ModelRecord) -> Certificate | None:
    """Reads the certificate of a checkpoint with this record, None if there is none.

    Raises:
        OldCertificateError: if it is of an older format.
        ForeignCertificateError: if it is of other weights, another truth, or another task.
        CheckpointError: one line, if it is damaged, leaves something out, or is of a newer format.
    """
    if not path.exists():
        return None
    data = read_json(path, CheckpointError)
    _check_format(path, data)
    certificate = parse_certificate(data, path)
    identity = certificate.identity
    if identity is None:
        raise CheckpointError(f"{path} is damaged: it does not say of which weights it is (identity)")
    truth = record.read_truth
    for other, found, wanted in (
        ("other weights", identity.weights, record.sha256),
        ("another truth", identity.truth, truth.sha256),
    ):
        if found != wanted:
            raise ForeignCertificateError(
                f"{path} is of {other}, {found[:12]}…, not of {wanted[:12]}…; {_again(path)}"
            )
    here = records().get(record.task)  # a task of one's own is known when it is certified or published
    if here is not None and identity.task != here.sha256:
        raise ForeignCertificateError(
            f"{path} is of another program or domain than task {record.task} has here; {_again(path)}"
        )
    if problem := _problem(certificate, Places.of(truth, record.alignment)):
        raise CheckpointError(f"{path} is damaged: {problem}")
    return certificate


def parse_certificate(data: object, path: Path) -> Certificate:
    """Returns the certificate in a file, of format 2 or 3.

    Raises:
        CheckpointError: one line, if it is damaged.
    """
    if isinstance(data, dict) and data.get("format") == PACKED:
        try:
            data = unpacked(data)
        except CheckpointError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from None
    return Certificate.from_json(data, path)


def certificate_of(folder: Path, record: ModelRecord) -> Certificate | None:
    """Returns a checkpoint's certificate; None if there is none, or one of an older format, which is said.

    Raises:
        CheckpointError: as `read_certificate` does.
    """
    try:
        return read_certificate(folder / CERTIFICATE, record)
    except OldCertificateError as error:
        log.warning("%s", error)
        return None


def write_certificate(path: Path, certificate: Certificate, identity: Identity) -> Certificate:
    """Writes what was measured, with what it is of; returns both.

    Args:
        path: the file.
        certificate: what was measured.
        identity: the hashes of weights, truth and task that it was measured on.
    """
    identified = replace(certificate, identity=identity)
    write_text(path, text_of(packed(identified.to_json())) + "\n")
    return identified


def check_files(folder: Path, certificate: bool = True) -> ModelRecord:
    """Checks the files of a checkpoint as far as that takes no torch; returns its record.

    Args:
        folder: the checkpoint's.
        certificate: whether its certificate matters; one of an older format counts as none.

    Raises:
        CheckpointError: one line, if one is missing, damaged, or not the one that the record is of.
    """
    record = read_record(folder)
    path = folder / WEIGHTS
    if sha256(read_bytes(path, most_weights_bytes(record.shape), CheckpointError)) != record.sha256:
        raise CheckpointError(f"{path} is damaged or changed: its SHA-256 is not the one in {RECORD}")
    if certificate:
        with contextlib.suppress(OldCertificateError):
            read_certificate(folder / CERTIFICATE, record)
    return record


def _again(path: Path) -> str:
    return f"`interpbench certify {shown(path.parent)} --save` makes a new one"


def _check_format(path: Path, data: object) -> None:
    """Refuses what is of another format than ours."""
    number = data.get("format") if isinstance(data, dict) else None
    if type(number) is int and number > PACKED:
        raise CheckpointError(
            f"{path} has format {shown(number)}; this version reads up to {PACKED}: upgrade interpbench"
        )
    old = type(number) is int and 1 <= number < FORMAT
    if old or (isinstance(data, dict) and number is None and all(key in data for key in OLD)):
        raise OldCertificateError(f"{path} is of an older format; {_again(path)}")


def _problem(certificate: Certificate, places: Places) -> str | None:
    """Returns what a certificate leaves out, or what in it contradicts itself; None if nothing."""
    rates, carried = certificate.rates, places.carried
    if {node: sorted(names) for node, names in certificate.variables.items()} != {
        node: sorted(names) for node, names in carried.items()
    }:
        return "its variables are not those of the record's alignment"
    if "accuracy" in rates and len(rates["accuracy"]) != 1:
        return f"it has {len(rates['accuracy'])} rates of no intervention"
    for kind, found in rates.items():
        vacuous = certificate.vacuous[kind] if kind in certificate.vacuous else ()
        if kind != "accuracy" and (problem := _misnamed(kind, found, places.of_kind(kind), vacuous)):
            return problem
        for place, draws in found.items():
            if problem := _misdrawn(certificate, kind, place, draws):
                return f"its rate of {name_of(kind, place)} {problem}"
    vacuous = [name for names in certificate.vacuous.values() for name in names]
    if stranger := next((name for name in vacuous if name not in carried), None):
        return f"it calls {stranger} vacuous, which carries no variable"
    return (
        _effects(certificate, places)
        or _screened(certificate)
        or _attacked(certificate, places)
        or _held_out(certificate)
    )


def _misnamed(kind: Kind, found: Iterable[str], wanted: list[str], vacuous: Collection[str]) -> str | None:
    """Returns which place of a kind is missing, or is none; what has no effect has no effective rows."""
    known = set(wanted)
    if stranger := next((name for name in found if name not in known), None):
        return f"it measures {name_of(kind, stranger)}, which this network does not have"
    optional = set(wanted) if kind == "effective_edges" else set(vacuous)
    missing = next((name for name in wanted if name not in found and name not in optional), None)
    return missing and f"it says nothing of {name_of(kind, missing)}"


def _misdrawn(certificate: Certificate, kind: Kind, place: str, draws: Rates) -> str | None:
    """Returns what is wrong with the draws of one rate: which is missing, or cannot be.

    Where all pairs were run, every rate is over these, but for those of random sets, which are always drawn.
    Swaps that change an answer may be so rare that one of the draws has none.
    """
    if "pairs" in draws and not certificate.all_pairs:
        return "is over all pairs, but not all pairs were run"
    if certificate.all_pairs and place not in (SUBSETS, OWN_SOURCES):
        if draws.keys() != {"pairs"}:
            drawn = next((draw for draw in draws if draw != "pairs"), "task")
            return f"is over draws from the {drawn}, but all pairs were run"
    elif not (kind in EFFECTIVE and draws):
        if missing := next((draw for draw in RANDOM_DRAWS if draw not in draws), None):
            return f"says nothing of draws from the {missing}"
    for draw, rate in draws.items():
        if draw != "pairs" and not rate.looks:
            return f"has all rows of what is drawn from the {draw}"
        if draw != "pairs" and rate.looks <= certificate.attempts:
            return f"was settled at look {rate.looks}, where {certificate.attempts} attempts were before"
        pairs = certificate.settings.get("pairs")
        most = (pairs or 0) * 2 ** (rate.looks - certificate.attempts - 1)
        if draw != "pairs" and most and rate.rows > most:
            return f"has {rate.rows:,} rows, where so many looks have {most:,}"
    return None


def _effects(certificate: Certificate, places: Places) -> str | None:
    """Returns what is wrong with the effects of required nodes and edges; None if nothing is.

    The certificate has to give the effect of every required node, if it swaps variables, and of every
    required edge, if it patches these; and of nothing else.
    """
    effects, rates = certificate.required_effect, certificate.rates
    needed = [
        *(places.required_nodes if "variables" in rates else ()),
        *(places.required_edges if "required_edges" in rates else ()),
    ]
    if missing := next((name for name in needed if name not in effects), None):
        return f"it says nothing of the effect of {missing}"
    known = {*places.required_nodes, *places.required_edges}
    stranger = next((name for name in effects if name not in known), None)
    return stranger and f"it has an effect of {stranger}, which is not required"


def _screened(certificate: Certificate) -> str | None:
    """Returns which numbers of the screen and of single edges contradict each other; None if all agree.

    The screen (`certificate.Screen`) says which single edges were run on which rows, and how many of the
    others were checked at random. For each edge, no more rows may be wrong than were checked, and no more
    checked than were not run. The totals have to be the sums over edges.
    """
    screen, rates = certificate.screen, certificate.rates.get("edges")
    if screen is None or rates is None:
        return None
    for edge, (passed, sampled, wrong) in screen.edges.items():
        if edge not in rates:
            return f"its screen passed over {edge}, which is no inert edge"
        if not wrong <= sampled <= passed:
            return f"its screen ran {sampled} of {passed} rows of {edge}, {wrong} wrong"
    rows = sum(rate.rows for draws in rates.values() for rate in draws.values())
    if screen.items < rows:
        return f"its screen had {screen.items:,} (edge, row), its single edges {rows:,}"
    passed, sampled, wrong = (sum(counts[i] for counts in screen.edges.values()) for i in range(3))
    said = (screen.passed_over, screen.sampled, screen.wrong)
    return None if said == (passed, sampled, wrong) else "its screen does not add up over edges"


def _attacked(certificate: Certificate, places: Places) -> str | None:
    """Returns what is wrong with the sets that an attack is said to have found; None if nothing is.

    A set may name each of its nodes or edges once, and only nodes outside the circuit or inert edges.
    """
    known = {"nodes": set(places.nodes), "edges": set(places.edges)}
    for kind, attack in certificate.attacks.items():
        if len(set(attack.places)) < len(attack.places):
            return f"its attack on {kind} names one twice"
        if stranger := next((name for name in attack.places if name not in known[kind]), None):
            return f"its attack on {kind} patches {stranger}, which is not forbidden"
        if len(attack.sources) != len(attack.places):
            return f"its attack on {kind} has {len(attack.sources)} sources of {len(attack.places)}"
        rates = attack.rates
        measured = rates.keys() == set(RANDOM_DRAWS) and all(rate.rows for rate in rates.values())
        if not (attack.places and attack.candidates and measured):
            return f"its attack on {kind} tried nothing"
        if not all(rate.looks for rate in rates.values()):
            return f"its attack on {kind} was measured on all rows, but sets are measured on drawn ones"
    return None


def _held_out(certificate: Certificate) -> str | None:
    """Returns whether it is unclear what of the pairs training has seen."""
    if certificate.trained_on_all:
        return None if certificate.held_out is None else "it says that all and not all inputs were held out"
    known = certificate.all_pairs or certificate.held_out is not None
    return None if known else "it does not say which share of the pairs was held out"
