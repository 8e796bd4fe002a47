"""AtP*: attribution patching with exact softmaxes and GradDrop (Kramár et al. 2024, section 3.1).

Letters of shapes: W writers, R readers, H heads of a layer, D features of the residual stream, E features of
a head, T positions, B examples.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, cast

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.attribution import Gradients, along_inputs, gradients
from interpbench.discovery.directions import Direction, directed
from interpbench.discovery.method import AblationValue, Runs, clean_and_patch, legal_scores, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.metrics import SlopeName
from interpbench.tasks.problem import Problem
from interpbench.transformer.layers import Block

FEWEST_LAYERS = 4
"""The smallest number of layers with which GradDrop is used by default."""


@method("atp_star")
@dataclass(frozen=True, config=STRICT)
class AtpStar:
    """AtP corrected for saturated attention and for effects that cancel between paths.

    Exact softmax (section 3.1.1): for an edge into queries or keys, the attention pattern is recomputed with
    that edge patched, LayerNorm included; only what follows the pattern is linear. The effect is
    Σ ∂M/∂pattern · (patched pattern − clean pattern). All positions are patched together; in the paper each
    position is a node of its own.

    GradDrop (section 3.1.2): there is one backward pass for each layer, in which no gradient flows through
    that layer's heads and MLP. The absolute effects are averaged over these passes, without the pass of the
    node's own layer (for edges: of the reader's layer). In a network of two layers only one pass is left, and
    it drops every effect that goes through the other layer; in one of three layers half of such effects are
    dropped. The paper's networks have dozens of layers. So GradDrop is off by default below four layers;
    `atp_star_grad_drop` always uses it.

    A node's score is that of its output: queries and keys, nodes in the paper, are readers here.

    Attributes:
        exact_softmax: whether attention patterns are recomputed for edges into queries and keys.
        grad_drop: whether backward passes each leave out one layer; None for only with four layers or more.
        metric: the metric, which must have a gradient at the clean point.
        ablation: what replaces the activations of patched nodes and edges.
        absolute: whether absolute values are averaged over pairs and layers.
        direction: which runs are patched: clean ones (`noising`, as its authors), corrupted ones
            (`denoising`), or both.
    """

    exact_softmax: bool = True
    grad_drop: bool | None = None
    metric: SlopeName = "logit_diff"
    ablation: AblationValue = "resample"
    absolute: bool = True
    direction: Direction = "noising"
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Kramár et al. 2024, section 3.1",
        code="none published by the authors",
        looks_at="clean and corrupted inputs, gradients",
        units="logit difference, or output",
        deviations=(
            "GradDrop is off below four layers, where it drops most effects; all positions are patched "
            "together; scores of edges are our addition"
        ),
        test=(
            "tests/discovery/test_discovery_theory.py: exact for one softmax; GradDrop against networks with "
            "a frozen layer"
        ),
        sign="larger: patching would change the metric more, by corrected first-order effects",
        cost=(
            "two forward passes, a forward and a backward pass (with GradDrop: per layer), and the softmaxes"
        ),
        first_order=True,
        granularity="edge",
    )

    @directed
    def __call__(self, problem: Problem) -> Scores:
        """Takes the gradient at the clean activations, once for each dropped layer."""
        cost, graph = Cost(), problem.graph
        runs = clean_and_patch(problem, self.metric, self.ablation, cost)
        edges = torch.zeros(graph.legal.shape, dtype=torch.float64, device=runs.clean.device)
        nodes = edges.new_zeros(len(graph.nodes))
        drop = graph.n_layers >= FEWEST_LAYERS if self.grad_drop is None else self.grad_drop
        layers = list(range(graph.n_layers)) if drop and graph.n_layers > 1 else [None]
        node_weights = _weights([node.layer for node in graph.nodes], layers).to(edges)
        edge_weights = _weights([reader.layer for reader in graph.readers], layers).to(edges)
        for layer, by_node, by_reader in zip(layers, node_weights, edge_weights):
            for some in gradients(problem, runs, along_inputs(problem, [0.0]), cost, blocked=layer):
                node, edge = some.node_effects(), some.edge_effects(graph)
                if self.exact_softmax:
                    for attention in range(graph.n_layers):
                        _through_softmax(edge, attention, problem, runs, some)
                if self.absolute:
                    node, edge = node.abs(), edge.abs()
                nodes += by_node * node.sum(-1)
                edges += by_reader[:, None] * edge.sum(-1)
        count = len(problem.clean)
        return Scores(graph, legal_scores(problem, edges / count), (nodes / count).cpu().numpy(), cost)


@method("atp_star_grad_drop")
@dataclass(frozen=True, config=STRICT)
class AtpStarGradDrop(AtpStar):
    """AtP* as in the paper: with GradDrop, in networks of two and three layers too.

    Attributes:
        grad_drop: whether backward passes each leave out one layer, however few layers there are.
    """

    grad_drop: bool | None = True
    record: ClassVar[MethodRecord] = replace(
        AtpStar.record,
        deviations="all positions are patched together; scores of edges are our addition",
    )


def _weights(own: list[int], dropped: Sequence[int | None]) -> Tensor:
    """Returns the weights of a mean over backward passes, `[pass, place]`.

    Args:
        own: the layer of each place (node or reader).
        dropped: the layer that each backward pass drops; None for none. A place's own layer has weight 0.
    """
    other = torch.tensor([[layer != mine for mine in own] for layer in dropped]).double()
    return other / other.sum(0)


@torch.no_grad()
def _through_softmax(edges: Tensor, layer: int, problem: Problem, runs: Runs, some: Gradients) -> None:
    """Replaces the effects of a layer's edges into queries and keys by those with recomputed patterns.

    Args:
        edges: the effects, `[R, W, B]`, which are changed in place.
        layer: the layer.
        problem: the network and its inputs.
        runs: the clean run.
        some: the gradients at the clean activations.
    """
    graph = problem.graph
    block = cast(Block, problem.network.blocks[layer])
    attention, heads = block.attn, graph.n_heads
    first = graph.readers_of_layer(layer).start
    before = graph.writers_before(graph.readers[first])
    clean = runs.cache.residuals[layer][..., some.rows]
    patched = (clean + some.delta[:before]).permute(1, 2, 0, 3).flatten(2)  # [D, T, W × B]

    q, k, v = attention.project(block.ln1(clean))
    fixed = torch.stack([q, k]).repeat(1, 1, 1, 1, before)
    moved_q, moved_k = attention.project(block.ln1(patched), attention.maps(slice(0, 2)))
    by_mixed = torch.einsum("hdtb,hed->hetb", some.writers[before : before + heads].mean(3), attention.W_O)
    by_pattern = torch.einsum("heqb,hekb->hqkb", by_mixed, v).unsqueeze(3)
    plain = attention.pattern(q, k).unsqueeze(3)
    for slot, pair in enumerate(((moved_q, fixed[1]), (fixed[0], moved_k))):
        moved = attention.pattern(*pair).unflatten(3, (before, -1))
        effects = ((moved - plain) * by_pattern).sum((1, 2))  # [H, W, B]
        edges[first + slot * heads : first + (slot + 1) * heads, :before] = effects
