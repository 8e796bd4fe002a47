"""The grade that a certificate reaches, by a standard that the reader chooses.

The grades, from the lowest, and what each needs in addition to those before it:

| grade | kinds of rates |
|---|---|
| behaviour | `accuracy` |
| iit | `variables`, `effective` (swaps that change the program's output) |
| siit | `nodes` (each forbidden node alone), `node_sets` (all, random subsets) |
| siit+edges | `edges` (each inert edge alone), `edge_sets`, `required_edges` |
| adversarial | the worst sets of nodes and of edges that a search has found |

`positions` (a variable swapped at one random position only) and `effective_positions` are needed for `iit` if
the standard asks for them; `effective_edges` (required edges where they change the program's output) is never
needed.
"""

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.certificate import (
    ATTACKED,
    EFFECTIVE,
    RANDOM_DRAWS,
    Attack,
    AttackedKind,
    Certificate,
    Kind,
    Rate,
    name_of,
)
from interpbench.circuits.naming import is_edge
from interpbench.core.config import STRICT, Share

Grade = Literal["behaviour", "iit", "siit", "siit+edges", "adversarial"]
GRADES: tuple[Grade, ...] = ("behaviour", "iit", "siit", "siit+edges", "adversarial")
"""The grades, from the lowest to the highest."""
RELEASED: Grade = "siit+edges"
"""The grade that every released model reaches."""
NEEDS: dict[Grade, tuple[Kind, ...]] = {
    "behaviour": ("accuracy",),
    "iit": ("variables", "effective"),
    "siit": ("nodes", "node_sets"),
    "siit+edges": ("edges", "edge_sets", "required_edges"),
    "adversarial": (),
}
"""The kinds of rates that each grade needs in addition to those of lower grades."""
DEMANDED: frozenset[Kind] = frozenset(kind for kinds in NEEDS.values() for kind in kinds)
"""The kinds of rates that some grade needs."""
POSITIONS: tuple[Kind, ...] = ("positions", "effective_positions")
"""The kinds of rates that are needed if a standard asks for positions."""
_GIVEN_UP = "was not measured on all draws"


@dataclass(frozen=True, config=STRICT)
class Standard:
    """What a reader asks of a certificate.

    Attributes:
        target: the smallest lower bound of rates over random draws; over all pairs no row may be wrong.
        confidence: the confidence of each bound, for all looks together.
        worst: the smallest lower bound of rates with the adversary's worst sets patched.
        missed: the largest upper bound of the share of effects of single edges that the screen misses. An
            effect is an (edge, row) whose answer changes if the edge is patched.
        missed_edge: the largest upper bound of that share for any single inert edge.
        tried: the smallest number of sets that the adversary must have tried, of nodes and of edges each.
        positions: whether swaps of a variable at one position alone must work too. If a network is trained
            for them, they are asked for.
    """

    target: Share = 0.999
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    worst: Share = 0.99
    missed: Share = 1e-4
    missed_edge: Share = 0.05
    tried: Annotated[int, Field(ge=1)] = 64
    positions: bool = False

    def demands(self, kind: Kind) -> bool:
        """Returns whether some grade needs rates of this kind, by this standard."""
        return kind in DEMANDED or (kind in POSITIONS and self.positions)

    def least(self, rate: Rate) -> float:
        """Returns the smallest bound that a rate must have: 1 if it is over all rows, else `target`."""
        return self.target if rate.looks else 1.0


@dataclass(frozen=True)
class Verdict:
    """The grade of a certificate, and why it is no higher.

    Attributes:
        grade: the highest grade that the certificate reaches; None if not even `behaviour`.
        failures: for each grade, in words, what falls short of its own demands, worst first.
        positions: whether swaps at one position alone reach the target; None if they were not measured.
    """

    grade: Grade | None
    failures: dict[Grade, list[str]]
    positions: bool | None

    def reaches(self, grade: Grade) -> bool:
        """Returns whether the certificate has this grade or a higher one."""
        return self.grade is not None and GRADES.index(self.grade) >= GRADES.index(grade)

    def missed(self, grade: Grade) -> list[str]:
        """Returns, in words, what keeps the certificate from a grade, and last what was given up."""
        said = [one for each in GRADES[: GRADES.index(grade) + 1] for one in self.failures[each]]
        return sorted(said, key=lambda one: one.endswith(_GIVEN_UP))


def in_words(grade: Grade | None, all_pairs: bool, target: float, positions: bool | None = None) -> str:
    """Returns a grade in words, such as `siit, positions ≥ 99.9%` or `siit+edges, all pairs, sets ≥ 99.9%`.

    Args:
        grade: the grade; None if not even `behaviour` is reached.
        all_pairs: whether rates are over all pairs of inputs. Rates with random sets patched are still over
            random draws, so their target is named.
        target: the smallest lower bound of rates over random draws.
        positions: whether swaps at one position reach the target; they are named from `iit` on.
    """
    if grade is None:
        return "not even behaviour"
    reached = f"{grade}, positions" if positions and grade != "behaviour" else grade
    if not all_pairs:
        return f"{reached} ≥ {100 * target:.6g}%"
    sets = f", sets ≥ {100 * target:.6g}%" if GRADES.index(grade) >= GRADES.index("siit") else ""
    return f"{reached}, all pairs{sets}"


def grade(certificate: Certificate, standard: Standard | None = None) -> Verdict:
    """Returns the verdict on a certificate by a standard; None for the default one."""
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
    """Returns in words the grade that a certificate reaches; `none` if there is no certificate."""
    if certificate is None:
        return "none"
    standard, verdict = standard or Standard(), grade(certificate, standard)
    return in_words(verdict.grade, certificate.all_pairs, standard.target, verdict.positions)


def _missed(certificate: Certificate, kind: Kind, standard: Standard) -> list[tuple[float, str]]:
    """Returns the bounds of a kind that are too low, each with a message."""
    places = certificate.rates.get(kind)
    if places is None:
        return [(0.0, f"{kind.replace('_', ' ')}: not measured")]
    missed: list[tuple[float, str]] = []
    for place, draws in places.items():
        if not draws:
            missed.append((math.inf, f"{name_of(kind, place)} was not measured"))
        elif kind not in EFFECTIVE and draws.keys() not in ({"pairs"}, {*RANDOM_DRAWS}):  # it was given up
            missed.append((math.inf, f"{name_of(kind, place)} {_GIVEN_UP}"))
        for draw, rate in draws.items():
            low, needed = rate.bound(standard.confidence), standard.least(rate)
            if low < needed:
                rows = f"{rate.wrong:,} of {rate.rows:,} rows wrong"
                where = "" if draw == "pairs" else f" ({draw})"
                missed.append((low, f"{name_of(kind, place)}{where} {low:.5f} < {needed:g}, {rows}"))
    return missed


def _others(certificate: Certificate, name: Grade, standard: Standard) -> list[str]:
    """Returns messages on whatever besides rates falls short of a grade."""
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
    """Yields messages on an attack: it was not made, tried too few sets, or found too bad a set."""
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
    """Returns messages on required edges, or nodes, that change no answer when they are patched."""
    return [
        f"required {place} has no effect"
        for place, effect in certificate.required_effect.items()
        if not effect and is_edge(place) == edges
    ]


def _overlooked(certificate: Certificate, standard: Standard) -> list[str]:
    """Returns messages on the screen of single edges: it is missing, or may have missed too much."""
    if certificate.screen is None:
        return ["no screen of single edges was recorded"] if certificate.rates.get("edges") else []
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
