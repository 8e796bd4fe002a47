"""The measurement of certificates: counts of right rows under interventions (`circuits.grades` judges them).

Rows are drawn twice, from the task's distribution and equally from its strata, and are held out if the domain
is large. A rate is *looked at* after a number of rows, and again after twice as many, while its bound misses
the target but could still reach it. Each look has its own share of the error probability, so that the bound
holds for all of them together (Bonferroni). If the domain is small, all pairs of inputs are run instead,
except for random sets. Single edges are screened (`screening`), and an adversary searches for the most
harmful sets (`scrub_adversary`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain

import numpy as np

from interpbench.circuits.certificate import (
    EFFECTIVE,
    FORMAT,
    OWN_SOURCES,
    RANDOM_DRAWS,
    SUBSETS,
    Certificate,
    Draw,
    HeldOut,
    Kind,
    RandomDraw,
    Rate,
    Rates,
    VacuousKind,
    level,
)
from interpbench.circuits.grades import GRADES, NEEDS, POSITIONS, Grade, Standard
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import is_edge
from interpbench.core import seeds
from interpbench.core.clopper_pearson import lower_bound
from interpbench.training.adversary import attack
from interpbench.training.effect_sizes import effects_of
from interpbench.training.intervention_tests import SPARSE, Chunk, InterventionTests, Outcome
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.screening import EdgeScreen
from interpbench.training.settings import CertificateSettings
from interpbench.training.stress import stress

CHUNK = 2048
"""The number of pairs that are run at once if all pairs are."""
ROWS_PER_CHUNK = 512
"""The number of drawn rows that are run at once, and of the stress test; one chunk may end an attempt."""
MOST_TRIED = 100
"""The largest number of rows that are drawn to find one that counts."""
BESIDES: dict[Grade, tuple[Kind, ...]] = {"iit": POSITIONS, "siit+edges": ("effective_edges",)}
"""The kinds of rates that are measured along with those that a grade needs."""
Claim = tuple[Kind, str]
"""A rate of a certificate: its kind, and the name of the node, edge or set."""


def certify(
    evaluation: Evaluation,
    truth: Truth,
    settings: CertificateSettings | None = None,
    standard: Standard | None = None,
    seed: int = 0,
    upto: Grade = "adversarial",
    give_up: Grade | None = None,
    progress: Callable[[int, int], None] | None = None,
    attempt: int = 0,
) -> Certificate:
    """Measures a network and returns its certificate.

    Args:
        evaluation: the network and its alignment.
        truth: the states of nodes and edges.
        settings: the settings of the certificate; None for the default.
        standard: the rates that have to be reached, on which the number of looks depends; None for the
            default.
        seed: the seed of all draws.
        upto: the highest grade whose rates are measured.
        give_up: the grade after whose failure measuring stops; None to measure everything.
        progress: a function that is called after each chunk with the number of rows so far and of all rows.
        attempt: the number of certificates of the same training that were tried before; each has rows of its
            own.
    """
    settings, standard = settings or CertificateSettings(), standard or Standard()
    measuring = _Certificate(evaluation, truth, settings, standard, upto, progress, give_up, attempt)
    measured = measuring.measure(seeds.derive(seed, "certificate", evaluation.task.name, attempt))
    return replace(measured, seed=seed)


class _Certificate:
    """A certificate while it is measured; `certify` explains the arguments."""

    def __init__(
        self,
        evaluation: Evaluation,
        truth: Truth,
        settings: CertificateSettings,
        standard: Standard,
        upto: Grade,
        progress: Callable[[int, int], None] | None,
        give_up: Grade | None,
        attempt: int,
    ):
        self.evaluation, self.settings, self.standard, self.upto = evaluation, settings, standard, upto
        self.task = evaluation.task
        self.all_pairs = settings.enumerates(self.task)
        self.tests, self.progress = InterventionTests(evaluation, truth), progress
        self.give_up, self.attempt, self.hopeless = give_up, attempt, False
        grades = GRADES[: GRADES.index(upto) + 1]
        kinds: list[Kind] = [kind for name in grades for kind in NEEDS[name] + BESIDES.get(name, ())]
        self.kinds = kinds
        self.claims: list[Claim] = [(kind, place) for kind in kinds for place in self.tests.places[kind]]
        self.rates: dict[Claim, Rates] = {claim: {} for claim in self.claims}
        self.vacuous: dict[VacuousKind, tuple[str, ...]] = {"effective": (), "effective_positions": ()}
        self.margin = 0.0 if evaluation.causal_model.numerical else math.inf
        draws = (self.task.domain.size**2,) if self.all_pairs else (settings.pairs,) * 2
        self.planned, self.done = sum(draws) + (2 * settings.pairs if self.all_pairs else 0), 0
        self.screen = EdgeScreen(
            self.tests, 0.0 if self.all_pairs else settings.share, self._chance(sum(draws))
        )
        self.from_held_out = {"bases": [0, 0], "sources": [0, 0]}

    def measure(self, seed: int) -> Certificate:
        """Measures all rates and the attacks, and returns the certificate."""
        drawn = self.claims
        if self.all_pairs:
            drawn = [claim for claim in self.claims if claim[1] in (SUBSETS, OWN_SOURCES)]
            self._enumerate([claim for claim in self.claims if claim not in drawn], seed)
        for draw in RANDOM_DRAWS:
            if not self.hopeless and drawn:
                self._looks(drawn, draw, seeds.generator(seed, draw))
        rates = self._by_kind()
        attacks = {}
        if self.upto == "adversarial" and not self.hopeless and self.settings.attacks:
            attacks = attack(self.tests, self.settings, self.standard, self._chunks, seed, self.attempt)
        moved = "edges" in self.kinds and not self.hopeless
        domain = self.task.domain
        numerical = self.evaluation.causal_model.numerical
        return Certificate(
            format=FORMAT,
            all_pairs=self.all_pairs,
            trained_on_all=domain.enumerated,
            held_out=None if domain.enumerated else self._held_out(),
            strata=self.task.strata.names,
            variables={str(node): names for node, names in self.evaluation.alignment.aligned_nodes.items()},
            rates=rates,
            vacuous=self.vacuous,
            required_effect={
                name: right / rows if rows else 0.0
                for name, (right, rows) in self.tests.effect.items()
                if ("required_edges" if is_edge(name) else "variables") in self.kinds
            },
            screen=self.screen.counts() if self.screen.items else None,
            attacks=attacks,
            margin=self.margin,
            margin_kind="largest error" if numerical else "smallest logit margin",
            stress=stress(self.evaluation, self.tests.unaligned, seed),
            effects=effects_of(self.evaluation, self.tests.truth, seed) if moved else None,
            attempts=self.attempt,
            settings=asdict(self.settings),
        )

    def _chance(self, rows: int) -> float:
        """Returns the probability with which the screen runs an edge on a row where its effect is small."""
        settings, edges = self.settings, max(1, len(self.tests.places["edges"]))
        each = max(settings.edge_checks, 1.25 * settings.checks / edges)
        return min(1.0, each * (1 + self.attempt / 6) / rows)  # bounds after other attempts need more

    # Draws.

    def _chunks(
        self,
        draw: RandomDraw,
        rng: np.random.Generator,
        rows: int,
        sources: int,
        at_once: int = ROWS_PER_CHUNK,
    ) -> Iterator[Chunk]:
        """Draws rows and yields them in chunks with the network's activations.

        Of a draw from strata, bases and half of the sources are from strata; one half of the rows is held
        out, the other is not, to find networks that fail on inputs of training, too.

        Args:
            draw: the draw, from the task's distribution or from its strata.
            rng: the random generator.
            rows: the number of rows.
            sources: the number of sources of each row.
            at_once: the number of rows of a chunk.
        """
        base, given = self._tokens(draw, rng, rows, sources)
        order = rng.permutation(rows)
        for some in (order[first : first + at_once] for first in range(0, rows, at_once)):
            yield self._run(base[some], [source[some] for source in given], rng)

    def _tokens(
        self, draw: RandomDraw, rng: np.random.Generator, rows: int, sources: int
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        domain, strata = self.task.domain, self.task.strata
        if draw == "task":
            base = domain.draw(rng, rows, True)
            return base, [domain.sources(rng, base, True) for _ in range(sources)]
        halves: list[tuple[np.ndarray, list[np.ndarray]]] = []
        for count, held_out in ((rows - rows // 2, True), (rows // 2, False)):
            base = strata.draw(rng, count, held_out)
            given = [domain.sources(rng, base, held_out) for _ in range(sources)]
            for source in given:
                stratified = rng.random(count) < 0.5
                source[stratified] = strata.draw(rng, int(stratified.sum()), held_out)
            halves.append((base, given))
        (base, given), (more, others) = halves
        return np.concatenate([base, more]), [
            np.concatenate(both) for both in zip(given, others, strict=True)
        ]

    def _run(
        self,
        base: np.ndarray,
        given: Sequence[np.ndarray],
        rng: np.random.Generator,
        at: np.ndarray | None = None,
    ) -> Chunk:
        if not self.task.domain.enumerated:
            for name, rows in [("bases", base), *(("sources", source) for source in given)]:
                self.from_held_out[name][0] += int(self.task.domain.is_held_out(rows).sum())
                self.from_held_out[name][1] += len(rows)
        run = self.evaluation.activations
        return Chunk(run(base), tuple(map(run, given)), rng, at)

    def _held_out(self) -> HeldOut:
        return HeldOut(*(held / rows if rows else 1.0 for held, rows in self.from_held_out.values()))

    def _pairs(self, rng: np.random.Generator) -> Iterator[Chunk]:
        """Yields all pairs of inputs in random order, so that rates that fail do so early."""
        side, evaluation = math.isqrt(CHUNK), self.evaluation
        inputs = rng.permutation(self.task.domain.all())
        blocks = [
            evaluation.activations(inputs[first : first + side]) for first in range(0, len(inputs), side)
        ]
        for number in rng.permutation(len(blocks) ** 2):
            base, source = divmod(int(number), len(blocks))
            pair = evaluation.pair(blocks[base], blocks[source])
            yield Chunk(pair[0], (pair[1],), rng)

    # Counts.

    def _add(self, chunk: Chunk, claims: Sequence[Claim], draw: Draw) -> None:
        """Measures some rates on a chunk."""
        wanted: dict[Kind, list[str]] = {}
        for kind, place in claims:
            wanted.setdefault(kind, []).append(place)
        open_claims = set(claims)
        if "accuracy" in wanted:
            worse = max if self.evaluation.causal_model.numerical else min
            self.margin = worse(self.margin, self.evaluation.margin(chunk.base))
        for outcome in self.tests.measure(chunk, wanted):
            if (outcome.kind, outcome.place) in open_claims:
                self._count_outcome(outcome, draw)
        if "edges" in wanted and not self._lost(claims, draw):
            for outcome in self.screen.measure(chunk, wanted["edges"]):
                self._count_outcome(outcome, draw)
            for place, unrun in self.screen.watch():
                if draw != "pairs":  # of all pairs none may be wrong: that one is, is enough
                    self._count(("edges", place), draw, 0, -unrun)
        self.done += len(chunk.base.tokens)
        if self.progress is not None:
            self.progress(self.done, max(self.planned, self.done))

    def _count_outcome(self, outcome: Outcome, draw: Draw) -> None:
        wrong = int((~outcome.right & outcome.counts).sum())
        self._count((outcome.kind, outcome.place), draw, wrong, int(outcome.counts.sum()))

    def _count(self, claim: Claim, draw: Draw, wrong: int, rows: int) -> None:
        self.rates[claim][draw] = self._rate(claim, draw).plus(wrong, rows)

    def _rate(self, claim: Claim, draw: Draw) -> Rate:
        return self.rates[claim].get(draw, Rate(0, 0, 0))

    def _enumerate(self, claims: Sequence[Claim], seed: int) -> None:
        """Measures some rates on all pairs of inputs."""
        for chunk in self._pairs(seeds.generator(seed, "pairs")):
            self._add(chunk, claims, "pairs")
            if self._lost(claims, "pairs"):
                self.hopeless = True
                return

    def _looks(self, claims: Sequence[Claim], draw: RandomDraw, rng: np.random.Generator) -> None:
        """Looks at some rates on more and more rows of a draw, until all are decided or looks are used up."""
        open_claims = list(claims)
        self.screen.begin()
        for look in range(1, self.settings.looks + 1):
            until = self.settings.pairs * 2 ** (look - 1)
            for claim in open_claims:  # before its rows: what is given up in a look has had it
                self.rates[claim][draw] = replace(self._rate(claim, draw), looks=look + self.attempt)
            common = [claim for claim in open_claims if claim[0] not in SPARSE or look == 1]
            rows = until if look == 1 else until // 2
            sources = self.settings.sources if any(place == OWN_SOURCES for _, place in common) else 1
            if common:
                first = min(ROWS_PER_CHUNK, rows) if look == 1 else 0  # after which it may be over
                blocks = (self._chunks(draw, rng, some, sources) for some in (first, rows - first) if some)
                for chunk in chain.from_iterable(blocks):
                    self._add(chunk, common, draw)
                    if self._lost(claims, draw):
                        self.hopeless = True
                        return
            for claim in open_claims:
                if claim[0] in SPARSE:
                    self._fill(claim, draw, rng, until)
                    if self._lost([claim], draw):
                        self.hopeless = True
                        return
            open_claims = [claim for claim in open_claims if self._undecided(claim, draw)]
            if not open_claims:
                return
            if self._lost(claims, draw):
                self.hopeless = True
                return

    def _fill(self, claim: Claim, draw: RandomDraw, rng: np.random.Generator, until: int) -> None:
        """Adds rows that count for a rate (`InterventionTests.counting`) until there are enough."""
        (kind, place), truth = claim, self.tests.truth
        if kind in self.vacuous:
            if truth.nodes[truth.graph.node_index[self.tests.aligned[place]]] != State.REQUIRED:
                return  # it changes nothing on the domain: what rows there are by chance have been counted
        tried, most = 0, MOST_TRIED * until
        while (missing := until - self._rate(claim, draw).rows) > 0 and tried < most:
            if tried >= 10 * until and not self._rate(claim, draw).rows:
                break  # nothing of some ten thousands: as vacuous as can be told
            base, (source,) = self._tokens(draw, rng, 4 * ROWS_PER_CHUNK, 1)
            tried += len(base)
            at = rng.integers(base.shape[1], size=len(base))
            chosen = np.flatnonzero(self.tests.counting(kind, place, base, source, at))
            chosen = chosen[: min(missing, CHUNK)]
            if len(chosen):
                chunk = self._run(base[chosen], [source[chosen]], rng, at[chosen])
                for outcome in self.tests.measure(chunk, {kind: [place]}):
                    if outcome.kind == kind:
                        self._count_outcome(outcome, draw)

    def _undecided(self, claim: Claim, draw: Draw) -> bool:
        """Returns whether a rate that is demanded misses the target but could reach it with more rows."""
        rate, standard = self._rate(claim, draw), self.standard
        if not standard.demands(claim[0]) or self._out_of_reach(claim, draw):
            return False
        return rate.rows > 0 and rate.bound(standard.confidence) < standard.target

    def _out_of_reach(self, claim: Claim, draw: Draw) -> bool:
        """Returns whether a rate misses the target even if all further rows are right."""
        wrong = self._rate(claim, draw).wrong
        if draw == "pairs":
            return wrong > 0
        looks = self.settings.looks
        most = self.settings.pairs * 2 ** (looks - 1)
        best = lower_bound(most - wrong, most, level(self.standard.confidence, looks + self.attempt))
        return wrong > 0 and best < self.standard.target

    def _lost(self, claims: Sequence[Claim], draw: Draw) -> bool:
        """Returns whether the grade `give_up` can no longer be reached."""
        if self.give_up is None:
            return False
        grades = GRADES[: GRADES.index(self.give_up) + 1]
        kinds = {*POSITIONS, *(kind for name in grades for kind in NEEDS[name])}
        return any(
            claim[0] in kinds and self.standard.demands(claim[0]) and self._out_of_reach(claim, draw)
            for claim in claims
        )

    def _by_kind(self) -> dict[Kind, dict[str, Rates]]:
        """Returns the rates by kind and place; those of swaps that change no output become `vacuous`."""
        rates: dict[Kind, dict[str, Rates]] = {kind: {} for kind in self.kinds}
        for (kind, place), draws in self.rates.items():
            optional = kind in EFFECTIVE
            found: Rates = {draw: rate for draw, rate in draws.items() if rate.rows or not optional}
            if found or not optional:
                rates[kind][place] = found
            elif kind in self.vacuous and not self.hopeless:
                self.vacuous[kind] += (place,)
        return rates
