"""The adversary: which further claim changes what a hypothesis keeps (Chan et al. 2022, section 6).

A hypothesis allows exchanges of inputs; a *refinement* allows fewer. If a refinement changes what is kept, in
either direction, the hypothesis was incomplete: outputs depend on more than it says. Three kinds are tried:

* `feature`: the values of a claim get a feature, too, so that inputs have to agree on both;
* `node`: a node without a claim gets one, with a feature as its values, and each claim whose node reads it
  reads it. Nothing is said of how it is computed: it writes what it writes on an input that agrees;
* `edges`: all claims whose nodes read the node of a claim read it.

Shapes: N inputs, S samples.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.core.estimate import MISS, Estimate
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import MOST_PATHS, Hypothesis, NodeClaim
from interpbench.scrubbing.path_draws import PATH, PathDraws

RefinementKind = Literal["feature", "node", "edges"]
Score = Callable[[Hypothesis, PathDraws], np.ndarray]
"""The type of functions that scrub a network and return a number for each sample, `[S]`, such as its loss."""
EVERYTHING = "all of the input"
"""The name of the feature with which no two inputs agree."""
RESAMPLES = 400
"""The number of samples of the bootstrap of a change."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refinement:
    """What a further claim changes.

    Attributes:
        kind: what is new: a feature of a claim, a claim about a node, or edges from a claim.
        claim: the claim.
        feature: the name of the feature that its values get; empty for edges.
        alone: the share of inputs with whom no other agrees on the claim then: if it is large, a change says
            that the node matters, and little of the feature.
        change: by how much the mean score is larger than before, over the same draws.
    """

    kind: RefinementKind
    claim: str
    feature: str
    alone: float
    change: Estimate


class _Trial(NamedTuple):
    """A refinement that is to be tried: what it is, the refined hypothesis, and the draws for it."""

    kind: RefinementKind
    claim: str
    feature: str
    refined: Hypothesis
    draws: PathDraws


@dataclass(frozen=True, eq=False)
class _WholeNodeDraws(PathDraws):
    """Draws with which a node without parents in the hypothesis writes what it writes on its own input.

    Attributes:
        whole: the claim about the node.
    """

    whole: str = ""

    def other(self, path: str, current: np.ndarray, parent: str) -> np.ndarray:
        """Returns the inputs on which an unimportant parent takes its value: those of the node itself."""
        if path.rpartition(PATH)[2] == self.whole:
            return current
        return super().other(path, current, parent)


def refinements(
    score: Score,
    parents: Mapping[str, Sequence[str]],
    hypothesis: Hypothesis,
    bank: Mapping[str, np.ndarray],
    draws: PathDraws,
    least: float = 0.0,
) -> list[Refinement]:
    """Returns what refinements of a hypothesis change, the largest change first.

    Of features with the same classes of inputs, only the first is tried. Refinements with more than
    `MOST_PATHS` paths are left out, and a log line says how many.

    Args:
        score: what is measured.
        parents: what each node of the network reads, by name.
        hypothesis: the hypothesis.
        bank: features by name: their values on each input, `[N]` or `[N, ...]`.
        draws: the draws.
        least: nodes without a claim are tried with features only if a claim with all of the input as its
            values changes the mean score by more than this.

    Raises:
        TaskError: if the hypothesis is not about this network, or a feature has not one value for each input.
    """
    before = score(hypothesis, draws)
    rng = seeds.generator(draws.seed, "adversary")
    weights = rng.multinomial(len(before), np.full(len(before), 1 / len(before)), RESAMPLES) / len(before)
    count, lengths = len(draws.everything.ids), draws.everything.ids
    features = _features(bank, draws.everything)
    found: list[Refinement] = []
    skipped = 0

    def changed(trial: _Trial) -> Refinement | None:
        if trial.refined.many:
            return None
        more = score(trial.refined, trial.draws) - before
        low, high = np.quantile(weights @ more, [MISS / 2, 1 - MISS / 2])
        change = Estimate(float(more.mean()), float(low), float(high), "bootstrap")
        alone = Classes.of(trial.refined.claims[trial.claim].values, count, lengths).alone
        return Refinement(trial.kind, trial.claim, trial.feature, alone, change)

    for trials in (
        *_with_features(hypothesis, features, draws),
        *_with_nodes(hypothesis, parents, features, draws),
        _with_edges(hypothesis, parents, draws),
    ):
        for trial in trials:
            one = changed(trial)
            skipped += one is None
            if one is None:
                continue
            found.append(one)
            if one.feature == EVERYTHING and abs(one.change.value) <= least:
                break
    if skipped:
        log.info("%d refinements are not tried, as they have more than %s paths", skipped, f"{MOST_PATHS:,}")
    return sorted(found, key=_order)


def _order(one: Refinement) -> tuple[float, float, str, str]:
    """Returns by what refinements are sorted: of equal changes, that with the larger classes first."""
    return -round(abs(one.change.value), 9), one.alone, one.claim, one.feature


def _features(bank: Mapping[str, np.ndarray], everything: Classes) -> dict[str, np.ndarray]:
    """Returns the class ids `[N]` of features that tell inputs of a length apart, each partition once."""
    known = {_partition(everything.ids)}
    found: dict[str, np.ndarray] = {}
    for name, values in bank.items():
        try:
            ids = Classes.of(values, len(everything.ids), everything.ids).ids
        except TaskError as error:
            raise TaskError(f"feature {name!r}: {error}") from None
        if (partition := _partition(ids)) not in known:
            known.add(partition)
            found[name] = ids
    return found


def _partition(ids: np.ndarray) -> bytes:
    """Returns what is the same for class ids `[N]` that differ in their numbers alone."""
    _, first, place = np.unique(ids, return_index=True, return_inverse=True)
    return first[place.reshape(-1)].tobytes()


def _with_features(
    hypothesis: Hypothesis, features: Mapping[str, np.ndarray], draws: PathDraws
) -> Iterator[Iterator[_Trial]]:
    """Returns the trials of each claim with values, whose classes a feature makes smaller."""
    lengths = draws.everything.ids

    def trials(name: str, own: np.ndarray) -> Iterator[_Trial]:
        for feature, ids in features.items():
            both = np.stack([own, ids], 1)
            if _partition(Classes.of(both, len(own)).ids) != _partition(own):
                finer = NodeClaim(hypothesis.claims[name].image, both)
                yield _Trial("feature", name, feature, _with(hypothesis, {name: finer}), draws)

    for name in hypothesis.order:
        values = hypothesis.claims[name].values
        if values is not None and name != hypothesis.output:
            yield trials(name, Classes.of(values, len(lengths), lengths).ids)


def _with_nodes(
    hypothesis: Hypothesis,
    parents: Mapping[str, Sequence[str]],
    features: Mapping[str, np.ndarray],
    draws: PathDraws,
) -> Iterator[Iterator[_Trial]]:
    """Returns the trials of each node that has no claim, and that a node with a claim reads."""
    claimed = {hypothesis.claims[name].image for name in hypothesis.order}

    def trials(node: str, readers: list[str]) -> Iterator[_Trial]:
        name = node
        while name in hypothesis.claims:
            name += "'"
        whole = _WholeNodeDraws(draws.seed, draws.samples, draws.everything, draws.sampling, name)
        edges = [(name, reader) for reader in readers]
        for feature, ids in ((EVERYTHING, None), *features.items()):
            refined = _with(hypothesis, {name: NodeClaim(node, ids)}, edges)
            yield _Trial("node", name, feature, refined, whole)

    for node in parents:
        readers = [name for name in hypothesis.order if node in parents[hypothesis.claims[name].image]]
        if node not in claimed and readers:
            yield trials(node, readers)


def _with_edges(
    hypothesis: Hypothesis, parents: Mapping[str, Sequence[str]], draws: PathDraws
) -> Iterator[_Trial]:
    """Returns the trial of each claim that further claims could read."""
    read = {
        reader: {hypothesis.claims[parent].image for parent in hypothesis.parents(reader)}
        for reader in hypothesis.order
    }
    for name in hypothesis.order:
        image = hypothesis.claims[name].image
        further = [
            (name, reader)
            for reader, images in read.items()
            if image in parents[hypothesis.claims[reader].image] and image not in images
        ]
        if further:
            yield _Trial("edges", name, "", _with(hypothesis, {}, further), draws)


def _with(
    hypothesis: Hypothesis, claims: Mapping[str, NodeClaim], edges: Sequence[tuple[str, str]] = ()
) -> Hypothesis:
    """Returns a hypothesis with other claims, and further edges."""
    together = {**hypothesis.claims, **claims}
    return replace(hypothesis, claims=together, edges=(*hypothesis.edges, *edges))
