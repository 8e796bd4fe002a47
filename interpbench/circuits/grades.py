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
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.circuits.certificate_counts import Kind, level, name_of, passed_over, share_of
from interpbench.circuits.naming import is_edge
from interpbench.core.clopper_pearson import lower_bound, upper_bound
from interpbench.core.config import STRICT, Share

Grade = Literal["behaviour", "iit", "siit", "siit+edges", "adversarial"]
GRADES: tuple[Grade, ...] = ("behaviour", "iit", "siit", "siit+edges", "adversarial")
RELEASED: Grade = "siit+edges"
"""The grade that every released model reaches."""
NEEDS: dict[str, tuple[Kind, ...]] = {
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


@dataclass(frozen=True)
class Verdict:
    """What a reader makes of a certificate.

    Attributes:
        grade: the highest one that it reaches; None if not even `behaviour`.
        failures: grade to what misses it, worst first.
        positions: whether swaps at one position alone reach the target; None if they were not measured.
    """

    grade: Grade | None
    failures: dict[str, list[str]]
    positions: bool | None

    def reaches(self, grade: str) -> bool:
        """Returns whether the grade is this one or a higher one."""
        return self.grade is not None and GRADES.index(self.grade) >= GRADES.index(grade)

    def missed(self, grade: str) -> list[str]:
        """Returns what misses a grade, or one below it."""
        return [said for each in GRADES[: GRADES.index(grade) + 1] for said in self.failures[each]]


def is_demanded(kind: Kind, standard: Standard) -> bool:
    """Returns whether some grade needs rates of a kind by this standard."""
    return kind in DEMANDED or (kind in POSITIONS and standard.positions)


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


def bound(rate: Any, confidence: float = Standard().confidence) -> float:
    """Returns what a rate is at least: its share if these are all rows, else its lower bound; 0 if none."""
    if not rate["rows"]:
        return 0.0
    if not rate["looks"]:
        return share_of(rate)
    return lower_bound(rate["rows"] - rate["wrong"], rate["rows"], level(confidence, rate["looks"]))


def wanted(rate: Any, standard: Standard) -> float:
    """Returns what the bound of a rate must be at least."""
    return standard.target if rate["looks"] else 1.0


def grade(proof: Any, standard: Standard | None = None) -> Verdict:
    """Returns what a reader with this standard makes of a certificate (a `Proof`)."""
    standard = standard or Standard()
    failures: dict[str, list[str]] = {}
    for name in GRADES:
        missed = [miss for kind in NEEDS[name] for miss in _missed(proof, kind, standard)]
        if name == "iit" and standard.positions:
            missed += [miss for kind in POSITIONS for miss in _missed(proof, kind, standard)]
        failures[name] = [said for _, said in sorted(missed)] + _others(proof, name, standard)
    reached = [name for place, name in enumerate(GRADES) if not any(failures[g] for g in GRADES[: place + 1])]
    positions = None
    if proof["rates"].get("effective_positions"):
        positions = not any(_missed(proof, kind, standard) for kind in POSITIONS)
    return Verdict(reached[-1] if reached else None, failures, positions)  # type: ignore[arg-type]


def said_of(proof: Any, standard: Standard | None = None) -> str:
    """Returns the grade that a certificate reaches, as it is shown; `none` without one."""
    if proof is None:
        return "none"
    standard, verdict = standard or Standard(), grade(proof, standard)
    return in_words(verdict.grade, proof["all_pairs"], standard.target, verdict.positions)


def _missed(proof: Any, kind: Kind, standard: Standard) -> list[tuple[float, str]]:
    """Returns the bounds of a kind that are too low, with what to say of them."""
    places = proof["rates"].get(kind)
    if places is None:
        return [(0.0, f"{kind.replace('_', ' ')}: not measured")]
    missed: list[tuple[float, str]] = []
    for place, draws in places.items():
        if not draws:
            missed.append((math.inf, f"{name_of(kind, place)} was not measured"))
        for draw, rate in draws.items():
            low, needed = bound(rate, standard.confidence), wanted(rate, standard)
            if low < needed:
                rows = f"{rate['wrong']:,} of {rate['rows']:,} rows wrong"
                where = "" if draw == "pairs" else f" ({draw})"
                missed.append((low, f"{name_of(kind, place)}{where} {low:.5f} < {needed:g}, {rows}"))
    return missed


def _others(proof: Any, name: str, standard: Standard) -> list[str]:
    """Returns what misses a grade besides rates."""
    if name == "iit":
        effects = proof["required_effect"]
        vacuous = proof["vacuous"].get("effective", [])
        said = [f"no swap of required {place} changes an answer" for place in vacuous if place in effects]
        return said + _inert(proof, edges=False)
    if name == "siit+edges":
        return _inert(proof, edges=True) + _overlooked(proof, standard)
    if name != "adversarial":
        return []
    said: list[str] = []
    for kind in ("nodes", "edges"):
        attack = proof["attacks"].get(kind)
        if attack is None and proof["rates"].get(kind) == {}:
            continue  # there is nothing to attack
        rates = {} if attack is None else attack["rates"]
        if attack is None or not attack["places"] or not rates or not all(r["rows"] for r in rates.values()):
            said.append(f"no attack on {kind} was made")
            continue
        if attack["candidates"] < standard.tried:
            said.append(f"the attack on {kind} tried {attack['candidates']:,} < {standard.tried:,} sets")
        for draw, rate in rates.items():
            low = bound(rate, standard.confidence)
            if low < standard.worst:
                places = len(attack["places"])
                said.append(f"worst set of {places} {kind} ({draw}) {low:.5f} < {standard.worst:g}")
    return said


def _inert(proof: Any, edges: bool) -> list[str]:
    """Returns which required edges, or nodes, change no answer when they are patched."""
    effects = proof["required_effect"]
    return [
        f"required {place} has no effect"
        for place, effect in effects.items()
        if not effect and is_edge(place) == edges
    ]


def may_miss(proof: Any, confidence: float) -> float | None:
    """Returns the largest share of (edge, row) that the screen of single edges may have missed, on average.

    There is one look in each certificate; earlier ones of the same training count. None if all were run.
    """
    screen = proof["screen"]
    if screen is None or screen["sampled"] >= (passed := passed_over(screen)):
        return None
    missed = upper_bound(screen["wrong"], screen["sampled"], level(confidence, 1 + proof["attempts"]))
    return missed * passed / screen["items"]


def _overlooked(proof: Any, standard: Standard) -> list[str]:
    """Returns whether the screen of single edges may miss too much, or is not there."""
    if proof["screen"] is None:
        return ["how single edges were measured is not said"] if proof["rates"].get("edges") else []
    said: list[str] = []
    average = may_miss(proof, standard.confidence)
    if average is not None and average > standard.missed:
        said.append(f"the screen of single edges may miss {average:.6f} > {standard.missed:g} of (edge, row)")
    edge, most = may_miss_at_most(proof, standard.confidence)
    if most > standard.missed_edge:
        said.append(
            f"the screen of single edges may miss {most:.4f} > {standard.missed_edge:g} of {edge}'s rows"
        )
    return said


def may_miss_at_most(proof: Any, confidence: float) -> tuple[str, float]:
    """Returns the single edge of which the screen may have missed most, and the share of its rows."""
    miss = level(confidence, 1 + proof["attempts"])
    shares, rates = {"no edge": 0.0}, proof["rates"].get("edges", {})
    for edge, (passed, sampled, wrong) in proof["screen"]["edges"].items():
        if sampled < passed:
            rows = sum(rate["rows"] for rate in rates.get(edge, {}).values())
            shares[edge] = min(1.0, upper_bound(wrong, sampled, miss) * passed / max(1, rows))
    edge = max(shares, key=lambda name: shares[name])
    return edge, shares[edge]
