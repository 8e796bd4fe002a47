"""Validation during training: the certificate's measurements on a small draw, cheapest first."""

from dataclasses import dataclass

import numpy as np

from interpbench.circuits.truth import Truth
from interpbench.core import seeds
from interpbench.training.evaluate import Evaluation
from interpbench.training.objective import Objective

EDGE_ROWS = 100_000
"""Rows that single edges may take together: with a thousand edges, each is tried on a hundred pairs."""


@dataclass(frozen=True)
class Validation:
    """Shares of right rows: of inputs, the worst unit, the worst forbidden node, the worst idle edge."""

    accuracy: float
    iia: float
    siia: float
    edges: float
    worst: str

    @property
    def lowest(self) -> float:
        """The smallest of them."""
        return min(self.accuracy, self.iia, self.siia, self.edges)


def validate(
    evaluation: Evaluation, truth: Truth, objective: Objective, rows: int, seed: int, step: int
) -> Validation:
    """Measures a draw of `rows` pairs, named by the step, for the terms that the objective trains.

    Edges are measured all at once, and one by one only when everything else is nearly right.
    """
    rng = seeds.generator(seed, "validation", step)
    domain = evaluation.task.domain
    tokens = domain.draw(rng, rows, True)
    base = evaluation.activations(tokens)
    source = evaluation.activations(domain.sources(rng, tokens, True))
    wanted = base.trace[evaluation.model.output]
    right = evaluation.right
    accuracy = right(evaluation.predictions(base.logits), wanted).mean()
    shares: dict[str, float] = {}
    if objective.iit > 0:
        for node, predictions in evaluation.single_nodes(
            base, source.stack, list(evaluation.alignment.units)
        ):
            counterfactual, _ = evaluation.counterfactual(base, source, node)
            shares[f"iia {node}"] = right(predictions, counterfactual).mean()
    if objective.strict > 0:
        for node, predictions in evaluation.single_nodes(base, source.stack, evaluation.alignment.outside):
            shares[f"siia {node}"] = right(predictions, wanted).mean()
    if objective.edge_strict > 0:
        ((_, predictions),) = evaluation.patched(base, source.stack, edges=truth.idle[None])
        shares["edges all"] = right(predictions, evaluation.with_edges(base, source, truth.idle)).mean()
        if min(accuracy, *shares.values()) > 0.995:
            places, graph = np.argwhere(truth.idle), truth.graph
            few = slice(min(rows, max(32, EDGE_ROWS // len(places))))
            base, source = base.rows(few), source.rows(few)
            for number, predictions in evaluation.single_edges(base, source.stack, places):
                reader, writer = places[number]
                name = f"edges {graph.nodes[writer]}->{graph.readers[reader]}"
                shares[name] = right(predictions, wanted[few]).mean()

    def lowest(kind: str) -> float:
        return float(min((share for name, share in shares.items() if name.startswith(kind)), default=1.0))

    worst = min(shares, key=lambda name: shares[name]) if shares else "accuracy"
    return Validation(float(accuracy), lowest("iia"), lowest("siia"), lowest("edges"), worst)
