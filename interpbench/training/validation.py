"""Validation during training: the measurements of a certificate, on few rows."""

import numpy as np
from pydantic.dataclasses import dataclass

from interpbench.circuits.certificate import WHAT, Kind
from interpbench.circuits.ground_truth import Truth
from interpbench.core import seeds
from interpbench.core.config import STRICT, Share
from interpbench.training.failures import Failures, target
from interpbench.training.intervention_tests import Chunk, InterventionTests
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.recipe import Recipe

EDGE_ROWS = 100_000
"""The number of rows on which single edges are patched, over all edges."""


@dataclass(frozen=True, config=STRICT)
class Validation:
    """The shares of rows with the right output in a validation; 1 for terms that are not trained.

    Attributes:
        accuracy: without an intervention.
        iia: with the worst aligned node swapped (interchange intervention accuracy).
        siia: with the worst node, or random set of nodes, outside the circuit patched.
        edges: with the worst edge, or random set of edges, patched.
        worst: the name of the node or edge of the lowest of all shares.
    """

    accuracy: Share
    iia: Share
    siia: Share
    edges: Share
    worst: str

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """All four shares."""
        return self.accuracy, self.iia, self.siia, self.edges

    @property
    def lowest(self) -> float:
        """The smallest of the four shares."""
        return min(self.rates)


def validate(
    evaluation: Evaluation, truth: Truth, recipe: Recipe, rows: int, seed: int, step: int
) -> tuple[Validation, Failures]:
    """Validates a network on the terms that its recipe trains; also returns what was wrong.

    Half of the rows are drawn from the task's distribution, half from its strata. Single edges are measured
    only if everything else is nearly right.

    Args:
        evaluation: the network and its alignment.
        truth: the states of nodes and edges.
        recipe: the recipe of the training.
        rows: the number of rows.
        seed: the seed of the training.
        step: the step, on which draws depend, too.
    """
    objective, draws = recipe.objective, recipe.draws
    rng = seeds.generator(seed, "validation", step)
    domain, strata, tests = (
        evaluation.task.domain,
        evaluation.task.strata,
        InterventionTests(evaluation, truth),
    )
    base = np.concatenate([domain.draw(rng, rows - rows // 2, True), strata.draw(rng, rows // 2, True)])
    given = [domain.sources(rng, base, True) for _ in range(2)]
    given[1][rows // 2 :] = strata.draw(rng, rows - rows // 2, True)
    chunk = Chunk(evaluation.activations(base), tuple(map(evaluation.activations, given)), rng)
    kinds: dict[str, tuple[Kind, ...]] = {"accuracy": ("accuracy",)}
    if objective.iit > 0:
        kinds["iia"] = ("variables", "positions") if draws.positions else ("variables",)
    if objective.strict > 0:
        kinds["siia"] = ("nodes", "node_sets")
    if objective.edge_strict > 0:
        kinds["edges"] = ("edge_sets", "required_edges") if draws.required else ("edge_sets",)
    shares: dict[str, float] = {}
    targets: dict[str, float] = {}
    labels = np.stack([strata.labels(base), strata.labels(given[0])])  # [base and source, row, stratum]
    wrong, counted = np.zeros((2, 2, len(strata.names)))
    for part, measured in kinds.items():
        for outcome in tests.measure(chunk, {kind: tests.places[kind] for kind in measured}):
            if outcome.kind in measured and outcome.counts.any():
                said = f"{part} {WHAT[outcome.kind]} {outcome.place}"
                shares[said] = float(outcome.right[outcome.counts].mean())
                targets[target(outcome.kind, outcome.place)] = 1 - shares[said]
                wrong += (labels & (outcome.counts & ~outcome.right)[:, None]).sum(1)
                counted += (labels & outcome.counts[:, None]).sum(1)
    if objective.edge_strict > 0 and min(shares.values()) > 0.99:
        places = tests.inert
        few = slice(min(rows, max(32, EDGE_ROWS // len(places))))
        some, source = chunk.base.rows(few), chunk.sources[0].rows(few)
        for number, predictions in evaluation.single_edges(some, source.stack, places):
            mask = np.zeros(truth.inert.shape, bool)
            mask[tuple(places[number])] = True
            right = evaluation.right(predictions, evaluation.with_edges(some, source, mask))
            name = tests.edge_name(places[number])
            shares[f"edges {WHAT['edges']} {name}"] = float(right.mean())
            targets[target("edges", name)] = 1 - float(right.mean())

    def lowest(kind: str) -> float:
        return float(min((share for name, share in shares.items() if name.startswith(kind)), default=1.0))

    worst = min(shares, key=lambda name: shares[name]).partition(" ")[2]
    failures = Failures(
        {name: share for name, share in targets.items() if share},
        *(
            {name: float(x) for name, x in zip(strata.names, shares) if x}
            for shares in wrong / counted.clip(1)
        ),
    )
    return Validation(lowest("accuracy"), lowest("iia"), lowest("siia"), lowest("edges"), worst), failures
