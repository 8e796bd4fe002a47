"""Contextual decomposition for transformers, CD-T (Hsu et al. 2024, arXiv 2407.00886v3, section 3).

D features of the residual stream, H heads of width E, M hidden units of an MLP, V outputs, T positions,
K sources or edges, B examples. A whole is an activation of the clean run: the relevant part plus the rest.
"""

from typing import ClassVar, cast

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.method import AblationValue, Runs, chunks, clean_and_patch, method
from interpbench.discovery.method_record import MethodRecord
from interpbench.tasks.problem import Problem
from interpbench.transformer.layers import Block, Mlp, Norm

TOLERANCE = 1e-8
"""What keeps a bias's shares finite where both parts are 0."""


@method("cdt")
@dataclass(frozen=True, config=STRICT)
class ContextualDecomposition:
    """Splits every activation into a relevant part, due to a source, and the rest, and follows both forward.

    The source's relevant part is its output minus the ablation value, at all positions. The rules are those
    of section 3.2 and of the authors' code: a linear map acts on each part, and its bias is shared out by the
    parts' sizes; a LayerNorm's scale is that of the whole; the relevant part of what a head gathers is
    softmax(β_Q β_K) β_V, of the relevant parts β of its queries, keys and values; an activation function f
    gives f(whole) − f(rest). Where the parts have opposite signs, the larger takes all: before the
    activation function, in what an MLP writes, and in the residual stream after each layer.

    Nodes are scored by iteration, as the authors score heads. First, a node's relevance is the logit
    difference of the relevant part of the logits. Then a node whose relevance passes a threshold becomes a
    target, and so does each earlier node whose relevance to a target passes it. A node's score is the largest
    threshold at which it is reached. The relevance to a target is the relevant part's share, by mean size, of
    the target's output (of what a head gathers, before the output matrix), times the clean logit
    difference. The authors' code keeps a fixed number of heads in each iteration; a threshold instead, which
    gives every node a score, is ours, and so are the embedding and MLPs as sources and targets.

    Edges are an extension of ours, which the paper does not have. An edge scores by how much less of the
    logit difference is relevant when its reader alone takes what the writer wrote for rest. (If the reader
    alone took it for relevant, queries and keys would score 0, for their values had no relevant part.)

    Attributes:
        opposite_signs: whether the larger part takes all where the parts have opposite signs.
        iterate: whether nodes are scored by iteration; else by their relevance to the logits.
        ablation: what the source is compared with.
        absolute: whether edges rank by absolute value.
    """

    opposite_signs: bool = True
    iterate: bool = True
    ablation: AblationValue = "mean_position"
    absolute: bool = True
    record: ClassVar[MethodRecord] = MethodRecord(
        source="Hsu et al. 2024 (v3), section 3.2",
        code="adelaidehsu/CD_Circuit at 079ecef: heads' relevance, not the iteration",
        looks_at="activations of clean and corrupted inputs, forward only",
        units="logit difference of the relevant part",
        deviations=(
            "a threshold instead of a number of heads per iteration; embedding and MLPs are sources "
            "too; edges are an extension of ours; absolute values"
        ),
        test="tests/discovery/test_discovery_theory.py against literal parts; compare_published --tools cdt",
        budget="the authors keep 2 heads per iteration; here every threshold",
        sign="larger: more of the difference between the answers' logits is due to the source",
        cost="two forward passes, one per writer, and one per edge from its reader's layer on",
        granularity="node",
        unsupported=("RMSNorm", "rotary positions", "gated MLP"),
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Follows many sources' parts in one call."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, "logit_diff", self.ablation, cost)
        sweep = Sweep(problem, runs, self.opposite_signs, cost)
        for some in chunks(problem, len(graph.nodes), len(problem.clean)):
            sweep.follow(some)
        nodes, edges = sweep.logits, np.where(graph.legal, sweep.logits - sweep.without, np.nan)
        if self.absolute:
            nodes, edges = np.abs(nodes), np.abs(edges)
        if self.iterate:
            nodes = by_iteration(nodes, sweep.clean * sweep.shares)
        return Scores(graph, edges, nodes, cost)


def by_iteration(relevance: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the largest threshold at which each node is reached from the logits by way of targets.

    Args:
        relevance: `[W]`, to the logits.
        targets: `[W, W]`, of each node to each later one; minus infinity for others.
    """
    while True:
        reached = np.maximum(relevance, np.minimum(targets, relevance).max(1))
        if np.array_equal(reached, relevance):
            return reached
        relevance = reached


class Layer:
    """A layer's weights, its whole activations, and the rules that part them.

    Relevant parts are `[..., T, K, B]`, wholes `[..., T, B]`.

    Args:
        block: the weights.
        residuals: the residual stream `[D, T, B]` before it, before its MLP and after it.
        written: `[H + 1, D, T, B]`, what its heads and its MLP write.
        opposite_signs: apply the rule for opposite signs.
    """

    def __init__(
        self, block: Block, residuals: tuple[Tensor, Tensor, Tensor], written: Tensor, opposite_signs: bool
    ):
        self.block, self.opposite_signs = block, opposite_signs
        self.attention, self.mlp = block.attn, cast(Mlp, block.mlp)
        self.weights, self.biases = self.attention.maps()
        self.before, self.middle, self.after = residuals
        self.projected = self._linear(block.ln1(self.before))
        whole = (self.projected + self.biases[..., None, None]).unsqueeze(-2)
        self.gathered = self.gather(*whole).squeeze(-2)
        self.attended, self.written = written[:-1].sum(0), written[-1]
        self.entered = torch.einsum("dm,dtb->mtb", self.mlp.W_in, block.ln2(self.middle))
        self.hidden = self.entered + self.mlp.b_in[:, None, None]
        self.active = self.mlp.activate(self.hidden)
        self.left = torch.einsum("md,mtb->dtb", self.mlp.W_out, self.active)

    def __call__(self, relevant: Tensor) -> Tensor:
        """Maps the relevant part of the residual stream before the layer to that after it."""
        summed = self.spread(self.gather(*self.project(relevant))).sum(2)
        middle = relevant + self.shared(summed)
        return self.settled(middle + self.transform(middle), self.after)

    def _linear(self, x: Tensor) -> Tensor:
        """Returns queries, keys and values without their biases, of `[D, T, ...]`: `[3, H, E, T, ...]`."""
        maps = self.weights, torch.zeros_like(self.biases)
        return self.attention.project(x.flatten(2), maps).unflatten(4, x.shape[2:])

    def project(self, relevant: Tensor) -> Tensor:
        """Returns the relevant parts of queries, keys and values `[3, H, E, T, K, B]`."""
        normed = _norm(self.block.ln1, relevant, self.before)
        return _biased(self._linear(normed), self.projected, self.biases)

    def gather(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Averages values by softmax(q k): `[H, E, T, K, B]` each, and the result."""
        pattern = self.attention.pattern(q.flatten(3), k.flatten(3))
        return self.attention.mix(pattern, v.flatten(3)).view_as(v)

    def spread(self, gathered: Tensor) -> Tensor:
        """Returns what each head writes, `[D, T, H, K, B]`."""
        written = self.attention.write(gathered.flatten(3)).unflatten(3, gathered.shape[3:])
        return written.permute(1, 2, 0, 3, 4)

    def shared(self, summed: Tensor) -> Tensor:
        """Adds to what all heads write, `[D, T, K, B]`, its share of the output bias."""
        return _biased(summed, self.attended, self.attention.b_O)

    def transform(self, middle: Tensor) -> Tensor:
        """Returns the relevant part of what the MLP writes, from that of the residual stream before it."""
        normed = _norm(self.block.ln2, middle, self.middle)
        entered = torch.einsum("dm,dtkb->mtkb", self.mlp.W_in, normed)
        part = self.settled(_biased(entered, self.entered, self.mlp.b_in), self.hidden)
        active = self.active.unsqueeze(2) - self.mlp.activate(self.hidden.unsqueeze(2) - part)
        left = torch.einsum("md,mtkb->dtkb", self.mlp.W_out, active)
        return self.settled(_biased(left, self.left, self.mlp.b_out), self.written)

    def settled(self, relevant: Tensor, whole: Tensor) -> Tensor:
        """Where the relevant part and the rest have opposite signs, gives everything to the larger."""
        if not self.opposite_signs:
            return relevant
        whole = whole.unsqueeze(-2)
        rest = whole - relevant
        winner = torch.where(relevant.abs() >= rest.abs(), whole, 0)
        return torch.where(relevant * rest < 0, winner, relevant)


class Sweep:
    """Follows the relevant parts of many sources through a network.

    Args:
        problem: the problem.
        runs: its clean and replaced activations.
        opposite_signs: apply the rule for opposite signs.
        cost: gets the passes added.

    Attributes:
        clean: the mean size of the clean logits' metric, never quite 0.
        logits: `[W]`, minus the metric of each source's relevant logits, to first order the effect of
            replacing the source.
        without: `[R, W]`, the same where the reader takes what the writer wrote for rest.
        shares: `[W, W]`, the relevant part's share of each later (second) node's output, averaged over
            positions; minus infinity for nodes that are not later.
    """

    def __init__(self, problem: Problem, runs: Runs, opposite_signs: bool, cost: Cost):
        self.problem, self.graph, self.network = problem, problem.graph, problem.network
        self.runs, self.cost = runs, cost
        count, each = len(self.graph.nodes), self.graph.n_heads + 1
        self.layers: list[Layer] = []
        streams = zip(runs.cache.residuals, runs.cache.middles, runs.cache.residuals[1:])
        for number, (block, residuals) in enumerate(zip(self.network.blocks, streams)):
            written = runs.clean[1 + number * each :][:each]
            self.layers.append(Layer(cast(Block, block), residuals, written, opposite_signs))
        clean = float(runs.metric(runs.logits).abs().mean())
        self.clean = max(clean, TOLERANCE)
        self.logits, self.without = np.zeros(count), np.zeros(self.graph.legal.shape)
        self.shares = np.full((count, count), -np.inf)

    def follow(self, some: slice) -> None:
        """Fills in `logits`, `without` and `shares` for some writers.

        Until a writer writes, its relevant part is 0, and the rules keep it so. `direct` is how much of the
        relevant part is what the source wrote itself; the rule for opposite signs scales both alike.
        """
        source = (self.runs.clean - self.runs.patch)[some].permute(1, 2, 0, 3)  # [D, T, K, B]
        total, direct = torch.zeros_like(source), torch.zeros_like(source)

        def chosen(start: int, stop: int) -> slice:
            return slice(max(start - some.start, 0), max(min(stop, some.stop) - some.start, 0))

        embedding = chosen(0, 1)
        total[:, :, embedding] = direct[:, :, embedding] = source[:, :, embedding]
        for number, layer in enumerate(self.layers):
            start = 1 + number * (self.graph.n_heads + 1)
            stop = start + self.graph.n_heads
            summed = self._attention(number, total, direct, slice(some.start, min(start, some.stop)))
            heads, mlp = chosen(start, stop), chosen(stop, stop + 1)
            summed[:, :, heads] = source[:, :, heads]
            attended = layer.shared(summed)
            total, direct[:, :, heads] = total + attended, attended[:, :, heads]
            written = self._mlp(number, total, direct, slice(some.start, min(stop, some.stop)))
            total = total + written
            total[:, :, mlp] = direct[:, :, mlp] = source[:, :, mlp]
            settled = layer.settled(total, layer.after)
            direct = torch.where(settled == total, direct, direct * (settled / total))
            total = settled
        self.logits[some] = self._ahead(total, len(self.layers))
        self.without[-1, some] = self._ahead(total - direct, len(self.layers))

    def _attention(self, number: int, total: Tensor, direct: Tensor, writers: slice) -> Tensor:
        """Returns the relevant part of what a layer's heads write; scores `writers` at it and their edges."""
        layer, heads = self.layers[number], self.graph.n_heads
        seen = layer.project(total)
        gathered = layer.gather(*seen)
        each = layer.spread(gathered)
        summed = each.sum(2)
        count = writers.stop - writers.start
        if count <= 0:
            return summed
        first, nodes = self.graph.readers_of_layer(number).start, 1 + number * (heads + 1)
        shares = _share(gathered[..., :count, :], layer.gathered)
        self.shares[writers, nodes : nodes + heads] = shares.T
        total, each = total[:, :, None, :count], each[..., :count, :]
        blind = layer.project(total[:, :, 0] - direct[:, :, :count])
        for slot in range(3):
            inputs = [(blind if i == slot else seen)[i][..., :count, :] for i in range(3)]
            changed = summed[:, :, None, :count] + layer.spread(layer.gather(*inputs)) - each
            middle = total + layer.shared(changed.flatten(2, 3)).view_as(changed)
            middle = middle.flatten(2, 3)
            after = layer.settled(middle + layer.transform(middle), layer.after)
            values = self._ahead(after, number + 1).reshape(heads, count)
            self.without[first + slot * heads :][:heads, writers] = values
        return summed

    def _mlp(self, number: int, total: Tensor, direct: Tensor, writers: slice) -> Tensor:
        """Returns the relevant part of what a layer's MLP writes; scores `writers` at it and their edges."""
        layer, heads = self.layers[number], self.graph.n_heads
        written = layer.transform(total)
        count = writers.stop - writers.start
        if count > 0:
            self.shares[writers, (number + 1) * (heads + 1)] = _share(
                written[None, ..., :count, :], layer.written
            )
            blind = layer.transform(total[:, :, :count] - direct[:, :, :count])
            after = layer.settled(total[:, :, :count] + blind, layer.after)
            reader = self.graph.readers_of_layer(number).stop
            self.without[reader, writers] = self._ahead(after, number + 1)
        return written

    def _ahead(self, relevant: Tensor, start: int) -> np.ndarray:
        """Returns `[K]`, minus the metric of the relevant logits, from the residual stream before a layer."""
        values, whole, examples = list[float](), self.runs.cache.residuals[-1], relevant.shape[3]
        norm, unembed = self.network.ln_final, self.network.unembed
        logits = torch.einsum("dv,dtb->vtb", unembed.W_U, norm(whole))
        for some in chunks(self.problem, relevant.shape[2], examples):
            part = relevant[:, :, some]
            for layer in self.layers[start:]:
                part = layer(part)
            part = torch.einsum("dv,dtkb->vtkb", unembed.W_U, _norm(norm, part, whole))
            values += (-self.runs.metric(_biased(part, logits, unembed.b_U)).mean(1)).tolist()
            self.cost.count((some.stop - some.start) * examples)
        return np.array(values)


def _share(relevant: Tensor, whole: Tensor) -> np.ndarray:
    """Returns the relevant part's share of a node's output by mean size over features and examples.

    Args:
        relevant: `[N, features, T, K, B]` of N nodes.
        whole: `[N, features, T, B]`.

    Returns:
        `[N, K]`, the mean over positions.
    """
    own = relevant.abs().mean((1, 4))
    rest = (whole.unsqueeze(-2) - relevant).abs().mean((1, 4))
    return (own / (own + rest + TOLERANCE)).mean(1).double().cpu().numpy()


def _biased(relevant: Tensor, whole: Tensor, bias: Tensor) -> Tensor:
    """Adds a bias `[..., F]`'s share by size to what a linear map makes of a part, `[..., F, T, K, B]`.

    Args:
        relevant: the map of the relevant part.
        whole: `[..., F, T, B]`, the map of the whole.
        bias: the bias.
    """
    size = relevant.abs()
    share = size / (size + (whole.unsqueeze(-2) - relevant).abs() + TOLERANCE)
    return relevant + bias[..., None, None, None] * share


def _norm(norm: torch.nn.Module, relevant: Tensor, whole: Tensor) -> Tensor:
    """Normalises `[D, T, K, B]` by the scale of the whole `[D, T, B]`; a bias is shared out by size."""
    if not isinstance(norm, Norm):
        return relevant
    scale = norm.scale(whole - whole.mean(0)).unsqueeze(2)
    normed = (relevant - relevant.mean(0)) / scale
    if not hasattr(norm, "w"):
        return normed
    size = relevant.abs()
    share = size / (size + (whole.unsqueeze(2) - relevant).abs() + TOLERANCE)
    weight, bias = (x[:, None, None, None] for x in (norm.w, norm.b))
    return normed * weight + bias * share
