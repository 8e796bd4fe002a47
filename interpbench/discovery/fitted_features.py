"""A baseline fitted to the circuits of other models: logistic regression on sizes of weights and activations.

Letters of shapes: W writers (nodes), R readers, E edges, F features of a node or edge.
"""

from functools import cache
from pathlib import Path
from typing import ClassVar, TypedDict

import numpy as np
import torch
from pydantic.dataclasses import dataclass

from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Node
from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.core.files import read_json, sha256
from interpbench.discovery.features import deviation_at_readers, spectral, standard_deviation, weight_matrices
from interpbench.discovery.method import method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

FILE = Path(__file__).with_name("fitted_features.json")
"""The file of fitted coefficients, which `python -m benchmarks.fit_features` writes."""
NODE_FEATURES = (
    *(
        "spectral norm of what it writes with",
        "Frobenius norm of the same",
        "spectral norm of what it reads with",
    ),
    *("largest virtual weights in", "largest virtual weights out", "virtual weights from the embedding"),
    *("virtual weights to the logits", "standard deviation of what it writes", "norm of its mean"),
    *("its standard deviation at the logits", "is the embedding", "is an MLP"),
)
"""The features of a node, in the order of coefficients."""
EDGE_FEATURES = (
    *("virtual weights", "standard deviation at the reader", "share of the reader's virtual weights"),
    *("share of what varies at the reader", "spectral norm of what the writer writes with"),
    *("spectral norm of what the reader reads with", "standard deviation of what the writer writes"),
    *(
        "writer's score as a node",
        "reader's score as a node",
        "is read as query or key",
        "as value",
        "by an MLP",
    ),
)
"""The features of an edge, in the order of coefficients."""


class Fit(TypedDict):
    """The coefficients of a logistic regression on all released models except those of one program.

    Attributes:
        program: the program whose models are left out; None if none are.
        without: the fingerprints of the networks that are left out.
        node: a coefficient for each of `NODE_FEATURES`, and the intercept.
        edge: a coefficient for each of `EDGE_FEATURES`, and the intercept.
    """

    program: str | None
    without: list[str]
    node: list[float]
    edge: list[float]


@method("fitted_features")
@dataclass(frozen=True, config=STRICT)
class FittedFeatures:
    """Log-odds of being required, predicted from a dozen features without answers or gradients.

    The features, `NODE_FEATURES` and `EDGE_FEATURES`, are logarithms of sizes of weights and activations,
    standardised within the network, and the kind of node or reader. `python -m benchmarks.fit_features` has
    fitted the stored coefficients: once on all released models, and for each program once without its models.
    A released network, recognised by its weights, is scored by the fit without the models of its program. Any
    other network is scored by the fit on all released models, which may include one of the same program, as
    it is not known here what a network computes.

    This is no method of circuit discovery: it shows how well circuits can be guessed from other models.
    """

    record: ClassVar[MethodRecord] = MethodRecord(
        source="baseline",
        code="none",
        looks_at="weights, clean inputs; it was fitted to the circuits of released models",
        units="log-odds of being required",
        deviations=(
            "a released network is scored by the fit without its program, any other by the fit on all "
            "released models, perhaps one of the same program among them"
        ),
        test="tests/discovery/test_baselines.py; benchmarks.fit_features",
        sign="larger: more likely required, by a regression on other models",
        cost="one forward pass, and a singular value decomposition per edge",
        granularity="edge",
        unsupported=("RMSNorm", "rotary positions", "gated MLP"),
        baseline=True,
    )

    file: ClassVar[Path] = FILE

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Computes the features, and scores nodes and edges by the fit for this network."""
        own = fingerprint(problem.network)
        fit = next((fit for fit in fits() if own in fit["without"]), fits()[0])
        return scores_by(fit, problem)


@torch.no_grad()
def scores_by(fit: Fit, problem: Problem) -> Scores:
    """Returns the scores of nodes and edges by a fit."""
    found, graph = features(problem), problem.graph
    edge = found.edge(np.array(fit["node"]))
    scores = np.full(graph.legal.shape, np.nan)
    scores[graph.legal] = weighed(edge, np.array(fit["edge"]))
    return Scores(graph, scores, weighed(found.node, np.array(fit["node"])), Cost(1, len(problem.clean)))


@cache
def fits() -> list[Fit]:
    """Returns the stored fits; the first is the one on all released models."""
    return read_json(FILE)


def fit_without(program: str) -> Fit:
    """Returns the fit without the models of a program; that on all released models if none is of it."""
    return next((fit for fit in fits() if fit["program"] == program), fits()[0])


def fingerprint(network: Transformer) -> str:
    """Returns the SHA-256 of a network's weights."""
    named = sorted(network.named_parameters())
    return sha256(b"".join(value.detach().float().cpu().numpy().tobytes() for _, value in named))


def weighed(values: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Returns the log-odds `[n]` from features `[n, F]` and coefficients `[F + 1]`, the intercept last."""
    return values @ coefficients[:-1] + coefficients[-1]


@dataclass(frozen=True, config={"arbitrary_types_allowed": True})
class Features:
    """The features of a network's nodes and edges.

    Attributes:
        node: the features of nodes, `[W, F]`.
        sizes: the first features of edges, which do not depend on the fit, `[E, 7]`.
        slots: the last ones, `[E, 3]`.
        writer: the index of each edge's writer, `[E]`.
        target: the index of the node that each edge's reader belongs to; -1 for the logits, `[E]`.
    """

    node: np.ndarray
    sizes: np.ndarray
    slots: np.ndarray
    writer: np.ndarray
    target: np.ndarray

    def edge(self, coefficients: np.ndarray) -> np.ndarray:
        """Returns the features of edges, `[E, F]`.

        Args:
            coefficients: the coefficients for nodes: the scores of an edge's two nodes are features of it.
        """
        own = weighed(self.node, coefficients)
        read = np.where(self.target < 0, own.max(), own[self.target])
        scores = _standardised(np.stack([own[self.writer], read], 1))
        return np.concatenate([self.sizes, scores, self.slots], 1)


def features(problem: Problem) -> Features:
    """Returns the features of the nodes and edges of a problem's network."""
    graph, network = problem.graph, problem.network
    weights = weight_matrices(network)
    writes, reads = (spectral(side).cpu().numpy() for side in (weights.writes, weights.reads))
    stack = record(network, problem.clean)[1].stack.double()
    varies = standard_deviation(stack).cpu().numpy()
    seen = deviation_at_readers(weights.reads.double(), stack).cpu().numpy()
    virtual = weights.virtual().cpu().numpy()
    inputs = _inputs(graph)
    legal = np.where(graph.legal, virtual, 0)
    into = np.array([legal[rows].max() if rows else reads.max() for rows in inputs])
    by_node = [
        *(writes, weights.writes.flatten(1).norm(dim=1).cpu().numpy()),
        np.array([reads[rows].max() if rows else reads.max() for rows in inputs]),
        *(into, legal.max(0)),
        np.array([virtual[rows, 0].max() if rows else virtual[:, 0].max() for rows in inputs]),
        *(virtual[-1], varies, stack.mean((2, 3)).norm(dim=1).cpu().numpy(), seen[-1]),
    ]
    node = _standardised(np.log(np.stack(by_node, 1) + 1e-6))
    kinds = [(place.layer < 0, place.layer >= 0 and place.head is None) for place in graph.nodes]
    reader, writer = np.argwhere(graph.legal).T
    shares = [_shares(np.where(graph.legal, x, 0)) for x in (virtual, seen)]
    by_edge = [
        *(virtual[reader, writer], seen[reader, writer], *(share[reader, writer] for share in shares)),
        *(writes[writer], reads[reader], varies[writer]),
    ]
    slots = [[place.slot in "qk", place.slot == "v", place.slot == "mlp"] for place in graph.readers]
    ends = [graph.node_index.get(Node(place.layer, place.head), -1) for place in graph.readers]
    return Features(
        np.concatenate([node, np.array(kinds, float)], 1),
        _standardised(np.log(np.stack(by_edge, 1) + 1e-6)),
        np.array(slots, float)[reader],
        writer,
        np.array(ends)[reader],
    )


def _shares(values: np.ndarray) -> np.ndarray:
    """Returns values `[R, W]` with each row divided by its sum; 0 where that is 0."""
    total = values.sum(1, keepdims=True)
    return np.divide(values, total, out=np.zeros_like(values), where=total > 0)


def _inputs(graph: Graph) -> list[list[int]]:
    """Returns the indices of each node's readers."""
    return [
        [
            r
            for r, place in enumerate(graph.readers)
            if Node(place.layer, place.head) == node and place.slot != "logits"
        ]
        for node in graph.nodes
    ]


def _standardised(values: np.ndarray) -> np.ndarray:
    """Returns values whose columns have mean 0 and standard deviation 1; constant columns become 0."""
    deviation = values.std(0)
    return (values - values.mean(0)) / np.where(deviation > 0, deviation, 1)
