"""What a reader makes of a certificate: a grade, by a standard of the reader's own.

The grades, and the kinds of rates that they need:

| grade | kinds of rates |
|---|---|
| behaviour | `accuracy` |
| iit | `variables`, `effective` (swaps that change the program's output) |
| siit | `nodes` (each forbidden node alone), `node_sets` (all, random subsets) |
| siit+edges | `edges` (each inert edge alone), `edge_sets`, `required_edges` |
| adversarial | the worst sets of nodes and of edges that a search has found |

`positions` (a variable swapped at one random position only) and `effective_positions` are needed where the
standard asks for them; `effective_edges` (required edges where they change the program's output) never is.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.certificate import ATTACKED, Attack, AttackedKind, Certificate, Kind, Rate, name_of
from interpbench.circuits.naming import is_edge
from interpbench.core.config import STRICT, Share

Grade = Literal["behaviour", "iit", "siit", "siit+edges", "adversarial"]
GRADES: tuple[Grade, ...] = ("behaviour", "iit", "siit", "siit+edges", "adversarial")
RELEASED: Grade = "siit+edges"
"""The grade that every released model reaches."""
NEEDS: dict[Grade, tuple[Kind, ...]] = {
    "behaviour": ("accuracy",),
    "iit": ("variables", "effective"),
    "siit": ("nodes", "node_sets"),
    "siit+edges": ("edges", "edge_sets", "required_edges"),
    "adversarial": (),
}
DEMANDED: frozenset[Kind] = frozenset(kind for kinds in NEEDS.values() for kind in kinds)
"""The kinds that some grade needs."""
POSITIONS: tuple[Kind, ...] = ("positions", "effective_positions")
"""The kinds that are demanded where a standard asks for positions."""


@dataclass(frozen=True, config=STRICT)
class Standard:
    """What a reader asks of a certificate.

    Attributes:
        target: the least lower bound of every drawn rate; where all pairs are run, none may be wrong.
        confidence: the confidence of each bound, over all looks that were taken for it.
        worst: the least lower bound on the worst sets that the adversary found.
        missed: the largest share of (edge, row) that the screen of single edges may miss, on average: an
            upper bound of those of inert edges that it passed over though an answer changes.
        missed_edge: the largest such share of each inert edge alone.
        tried: the least number of sets that the adversary must have tried, of nodes and of edges.
        positions: whether variables must be swappable at one position alone; trained for, it is asked for.
    """

    target: Share = 0.999
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    worst: Share = 0.99
    missed: Share = 1e-4
    missed_edge: Share = 0.05
    tried: Annotated[int, Field(ge=1)] = 64
    positions: bool = False

    def demands(self, kind: Kind) -> bool:
        """Returns whether some grade needs rates of a kind."""
        return kind in DEMANDED or (kind in POSITIONS and self.positions)

    def least(self, rate: Rate) -> float:
        """Returns what the bound of a rate must be at least."""
        return self.target if rate.looks else 1.0


@dataclass(frozen=True)
class Verdict:
    """What a reader makes of a certificate.

    Attributes:
        grade: the highest one that it reaches; None if not even `behaviour`.
        failures: grade to what misses it, worst first.
        positions: whether swaps at one position alone reach the target; None if they were not measured.
    """

    grade: Grade | None
    failures: dict[Grade, list[str]]
    positions: bool | None

    def reaches(self, grade: Grade) -> bool:
        """Returns whether the grade is this one or a higher one."""
        return self.grade is not None and GRADES.index(self.grade) >= GRADES.index(grade)

    def missed(self, grade: Grade) -> list[str]:
        """Returns what misses a grade, or one below it."""
        return [said for each in GRADES[: GRADES.index(grade) + 1] for said in self.failures[each]]


def in_words(grade: Grade | None, all_pairs: bool, target: float, positions: bool | None = None) -> str:
    """Returns a grade as it is shown: `siit, positions ≥ 99.9%`, `siit+edges, all pairs, sets ≥ 99.9%`.

    Random sets are drawn even where everything else is run on all pairs. Positions are named from `iit` on.
    """
    if grade is None:
        return "not even behaviour"
    reached = f"{grade}, positions" if positions and grade != "behaviour" else grade
    if not all_pairs:
        return f"{reached} ≥ {100 * target:.6g}%"
    sets = f", sets ≥ {100 * target:.6g}%" if GRADES.index(grade) >= GRADES.index("siit") else ""
    return f"{reached}, all pairs{sets}"


def grade(certificate: Certificate, standard: Standard | None = None) -> Verdict:
    """Returns what a reader with this standard makes of a certificate."""
    standard = standard or Standard()
    failures: dict[Grade, list[str]] = {}
    reached: Grade | None = None
    for name in GRADES:
        missed = [miss for kind in NEEDS[name] for miss in _missed(certificate, kind, standard)]
        if name == "iit" and standard.positions:
            missed += [miss for kind in POSITIONS for miss in _missed(certificate, kind, standard)]
        failures[name] = [said for _, said in sorted(missed)] + _others(certificate, name, standard)
        if not any(failures.values()):
            reached = name
    positions = None
    if certificate.rates.get("effective_positions"):
        positions = not any(_missed(certificate, kind, standard) for kind in POSITIONS)
    return Verdict(reached, failures, positions)


def said_of(certificate: Certificate | None, standard: Standard | None = None) -> str:
    """Returns the grade that a certificate reaches, as it is shown; `none` without one."""
    if certificate is None:
        return "none"
    standard, verdict = standard or Standard(), grade(certificate, standard)
    return in_words(verdict.grade, certificate.all_pairs, standard.target, verdict.positions)


def _missed(certificate: Certificate, kind: Kind, standard: Standard) -> list[tuple[float, str]]:
    """Returns the bounds of a kind that are too low, with what to say of them."""
    places = certificate.rates.get(kind)
    if places is None:
        return [(0.0, f"{kind.replace('_', ' ')}: not measured")]
    missed: list[tuple[float, str]] = []
    for place, draws in places.items():
        if not draws:
            missed.append((math.inf, f"{name_of(kind, place)} was not measured"))
        for draw, rate in draws.items():
            low, needed = rate.bound(standard.confidence), standard.least(rate)
            if low < needed:
                rows = f"{rate.wrong:,} of {rate.rows:,} rows wrong"
                where = "" if draw == "pairs" else f" ({draw})"
                missed.append((low, f"{name_of(kind, place)}{where} {low:.5f} < {needed:g}, {rows}"))
    return missed


def _others(certificate: Certificate, name: Grade, standard: Standard) -> list[str]:
    """Returns what misses a grade besides rates."""
    if name == "iit":
        effects = certificate.required_effect
        vacuous = certificate.vacuous.get("effective", ())
        said = [f"no swap of required {place} changes an answer" for place in vacuous if place in effects]
        return said + _inert(certificate, edges=False)
    if name == "siit+edges":
        return _inert(certificate, edges=True) + _overlooked(certificate, standard)
    if name != "adversarial":
        return []
    return [
        said
        for kind in ATTACKED
        if kind in certificate.attacks or certificate.rates.get(kind) != {}  # else there is nothing to attack
        for said in _attacked(kind, certificate.attacks.get(kind), standard)
    ]


def _attacked(kind: AttackedKind, attack: Attack | None, standard: Standard) -> Iterator[str]:
    """Yields what is missing in an attack, or what its worst set misses."""
    rates = {} if attack is None else attack.rates
    if attack is None or not attack.places or not rates or not all(rate.rows for rate in rates.values()):
        yield f"no attack on {kind} was made"
        return
    if attack.candidates < standard.tried:
        yield f"the attack on {kind} tried {attack.candidates:,} < {standard.tried:,} sets"
    for draw, rate in rates.items():
        low = rate.bound(standard.confidence)
        if low < standard.worst:
            yield f"worst set of {len(attack.places)} {kind} ({draw}) {low:.5f} < {standard.worst:g}"


def _inert(certificate: Certificate, edges: bool) -> list[str]:
    """Returns which required edges, or nodes, change no answer when they are patched."""
    return [
        f"required {place} has no effect"
        for place, effect in certificate.required_effect.items()
        if not effect and is_edge(place) == edges
    ]


def _overlooked(certificate: Certificate, standard: Standard) -> list[str]:
    """Returns whether the screen of single edges may miss too much, or is not there."""
    if certificate.screen is None:
        return ["how single edges were measured is not said"] if certificate.rates.get("edges") else []
    said: list[str] = []
    average = certificate.may_miss(standard.confidence)
    if average is not None and average > standard.missed:
        said.append(f"the screen of single edges may miss {average:.6f} > {standard.missed:g} of (edge, row)")
    edge, most = certificate.may_miss_at_most(standard.confidence)
    if most > standard.missed_edge:
        said.append(
            f"the screen of single edges may miss {most:.4f} > {standard.missed_edge:g} of {edge}'s rows"
        )
    return said
