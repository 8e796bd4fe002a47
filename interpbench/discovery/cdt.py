"""Contextual decomposition for transformers, CD-T (Hsu et al. 2024, arXiv 2407.00886v3, section 3).

A *source* is the node whose effect is followed; a *whole* is an activation of the clean run, the sum of the
*relevant part*, which is due to the source, and the *rest*.

Letters of shapes: W writers (nodes), R readers, D features of the residual stream, H heads with E features
each, M hidden units of an MLP, V outputs, T positions, K sources or edges, B examples.
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
"""A small number added to denominators, so that shares are finite where both parts are 0."""


@method("cdt")
@dataclass(frozen=True, config=STRICT)
class ContextualDecomposition:
    """Splits activations into a relevant part, due to a source, and the rest, and propagates both forward.

    The relevant part of the source's own output is the output minus its ablation value, at all positions. It
    is propagated by the rules of section 3.2 and of the authors' code: a linear map acts on each part, and
    its bias is divided in proportion to the parts' absolute values; a LayerNorm's scale is that of the whole;
    the relevant part of a head's mixed values is softmax(β_Q β_K) β_V, where β are the relevant parts of its
    queries, keys and values; an activation function f gives f(whole) − f(rest). Where the parts have opposite
    signs, the larger takes all: before the activation function, in an MLP's output, and in the residual
    stream after each layer.

    Nodes are scored by iteration, as heads are by the authors. A node's relevance to the logits is the logit
    difference of the relevant part of the logits. Its relevance to a later node (a target) is the relevant
    part's share, by mean absolute value, of the target's output (of a head: of its mixed values, before W_O),
    times the clean logit difference. At a threshold, the nodes whose relevance to the logits exceeds it are
    kept, and then all nodes whose relevance to a kept node exceeds it. A node's score is the largest
    threshold at which it is kept. The authors' code keeps a fixed number of heads in each iteration; the
    threshold, which gives every node a score, is our change, as are the embedding and MLPs as sources and
    targets.

    Scores of edges are our extension. An edge's score is how much the logit difference of the relevant part
    falls if its reader, and no other, counts the writer's own output as part of the rest. (If instead
    its reader alone counted it as relevant, all queries and keys would score 0, since the relevant part of
    their head's values would be 0.)

    Attributes:
        opposite_signs: whether the larger part takes all where the parts have opposite signs.
        iterate: whether nodes are scored by iteration; if not, by their relevance to the logits.
        ablation: what is subtracted from the source's output to get its relevant part.
        absolute: whether scores are absolute values.
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
            "a threshold instead of a number of heads per iteration; embedding and MLPs are sources and "
            "targets too; scores of edges are our extension; absolute values"
        ),
        test="tests/discovery/test_discovery_theory.py against literal parts; compare_published --tools cdt",
        budget="the authors keep 2 heads per iteration; here all thresholds are taken",
        sign="larger: more of the difference between the answers' logits is due to the source",
        cost="two forward passes, one per writer, and one per edge from its reader's layer on",
        granularity="node",
        unsupported=("RMSNorm", "rotary positions", "gated MLP"),
    )

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Propagates the relevant parts of many sources in one call."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, "logit_diff", self.ablation, cost)
        found = Propagation(problem, runs, self.opposite_signs, cost)
        for some in chunks(problem, len(graph.nodes), len(problem.clean)):
            found.propagate(some)
        nodes, edges = found.logits, np.where(graph.legal, found.logits - found.without, np.nan)
        if self.absolute:
            nodes, edges = np.abs(nodes), np.abs(edges)
        if self.iterate:
            nodes = by_iteration(nodes, found.clean * found.shares)
        return Scores(graph, edges, nodes, cost)


def by_iteration(relevance: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the largest threshold at which iteration keeps each node, `[W]`.

    Args:
        relevance: the relevance of each node to the logits, `[W]`.
        targets: the relevance of each node to each later node, `[W, W]`; minus infinity for other nodes.
    """
    while True:
        reached = np.maximum(relevance, np.minimum(targets, relevance).max(1))
        if np.array_equal(reached, relevance):
            return reached
        relevance = reached


class Layer:
    """A layer's weights and clean activations, and the rules that propagate relevant parts through it.

    Relevant parts are `[..., T, K, B]`, wholes `[..., T, B]`.

    Args:
        block: the layer's weights.
        residuals: the residual stream before the layer, before its MLP and after the layer, `[D, T, B]` each.
        written: the outputs of its heads and its MLP, `[H + 1, D, T, B]`.
        opposite_signs: whether the larger part takes all where the parts have opposite signs.
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
        self.mixed = self.mix(*whole).squeeze(-2)
        self.attended, self.written = written[:-1].sum(0), written[-1]
        self.entered = torch.einsum("dm,dtb->mtb", self.mlp.W_in, block.ln2(self.middle))
        self.hidden = self.entered + self.mlp.b_in[:, None, None]
        self.active = self.mlp.activate(self.hidden)
        self.left = torch.einsum("md,mtb->dtb", self.mlp.W_out, self.active)

    def __call__(self, relevant: Tensor) -> Tensor:
        """Maps the relevant part of the residual stream before the layer to that after it."""
        summed = self.heads(self.mix(*self.project(relevant))).sum(2)
        middle = relevant + self.with_bias(summed)
        return self.larger_takes_all(middle + self.transform(middle), self.after)

    def _linear(self, x: Tensor) -> Tensor:
        """Maps the residual stream `[D, T, ...]` to q, k and v without their biases, `[3, H, E, T, ...]`."""
        maps = self.weights, torch.zeros_like(self.biases)
        return self.attention.project(x.flatten(2), maps).unflatten(4, x.shape[2:])

    def project(self, relevant: Tensor) -> Tensor:
        """Returns the relevant parts of queries, keys and values `[3, H, E, T, K, B]`."""
        normed = _norm(self.block.ln1, relevant, self.before)
        return _biased(self._linear(normed), self.projected, self.biases)

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Averages values with the attention pattern of queries and keys: softmax(q k) v.

        Args:
            q: the queries, `[H, E, T, K, B]`.
            k: the keys, `[H, E, T, K, B]`.
            v: the values, `[H, E, T, K, B]`.

        Returns:
            The mixed values of each head, `[H, E, T, K, B]`.
        """
        pattern = self.attention.pattern(q.flatten(3), k.flatten(3))
        return self.attention.mix(pattern, v.flatten(3)).view_as(v)

    def heads(self, mixed: Tensor) -> Tensor:
        """Maps mixed values `[H, E, T, K, B]` to the outputs of heads, `[D, T, H, K, B]`."""
        written = self.attention.write(mixed.flatten(3)).unflatten(3, mixed.shape[3:])
        return written.permute(1, 2, 0, 3, 4)

    def with_bias(self, summed: Tensor) -> Tensor:
        """Adds the relevant part of the output bias to that of the sum of all heads, `[D, T, K, B]`."""
        return _biased(summed, self.attended, self.attention.b_O)

    def transform(self, middle: Tensor) -> Tensor:
        """Maps the relevant part of the residual stream before the MLP to that of the MLP's output."""
        normed = _norm(self.block.ln2, middle, self.middle)
        entered = torch.einsum("dm,dtkb->mtkb", self.mlp.W_in, normed)
        part = self.larger_takes_all(_biased(entered, self.entered, self.mlp.b_in), self.hidden)
        active = self.active.unsqueeze(2) - self.mlp.activate(self.hidden.unsqueeze(2) - part)
        left = torch.einsum("md,mtkb->dtkb", self.mlp.W_out, active)
        return self.larger_takes_all(_biased(left, self.left, self.mlp.b_out), self.written)

    def larger_takes_all(self, relevant: Tensor, whole: Tensor) -> Tensor:
        """Returns relevant parts in which, where parts have opposite signs, the larger is the whole."""
        if not self.opposite_signs:
            return relevant
        whole = whole.unsqueeze(-2)
        rest = whole - relevant
        winner = torch.where(relevant.abs() >= rest.abs(), whole, 0)
        return torch.where(relevant * rest < 0, winner, relevant)


class Propagation:
    """Propagates the relevant parts of many sources through a network.

    Args:
        problem: the network and its inputs.
        runs: the clean run and the ablation values.
        opposite_signs: whether the larger part takes all where the parts have opposite signs.
        cost: the passes are added to it.

    Attributes:
        clean: the mean absolute logit difference of the clean run, at least `TOLERANCE`.
        logits: the logit difference of the relevant part of the logits, of the clean answer over the
            corrupted one, `[W]` for the sources; to first order, the effect of ablating the source.
        without: the same if one reader counts the writer's own output as part of the rest, `[R, W]`.
        shares: the relevant part's share of each later node's output, averaged over positions, `[W, W]`
            (source, later node); minus infinity for nodes that are not later.
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

    def propagate(self, some: slice) -> None:
        """Fills in `logits`, `without` and `shares` for some of the sources.

        The relevant part is 0 up to the source's own output. `total` is the relevant part of the residual
        stream, `direct` how much of it is the source's own output; the rule for opposite signs scales both
        by the same factor.
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
            attended = layer.with_bias(summed)
            total, direct[:, :, heads] = total + attended, attended[:, :, heads]
            written = self._mlp(number, total, direct, slice(some.start, min(stop, some.stop)))
            total = total + written
            total[:, :, mlp] = direct[:, :, mlp] = source[:, :, mlp]
            after = layer.larger_takes_all(total, layer.after)
            direct = torch.where(after == total, direct, direct * (after / total))
            total = after
        self.logits[some] = self._relevance(total, len(self.layers))
        self.without[-1, some] = self._relevance(total - direct, len(self.layers))

    def _attention(self, number: int, total: Tensor, direct: Tensor, writers: slice) -> Tensor:
        """Returns the relevant part of the sum of a layer's heads; scores the edges of `writers` into them.

        Args:
            number: the layer.
            total: the relevant part of the residual stream before it, `[D, T, K, B]`.
            direct: how much of it is the sources' own output, `[D, T, K, B]`.
            writers: the sources that come before the layer; the first of K.
        """
        layer, heads = self.layers[number], self.graph.n_heads
        seen = layer.project(total)
        mixed = layer.mix(*seen)
        each = layer.heads(mixed)
        summed = each.sum(2)
        count = writers.stop - writers.start
        if count <= 0:
            return summed
        first, nodes = self.graph.readers_of_layer(number).start, 1 + number * (heads + 1)
        shares = _share(mixed[..., :count, :], layer.mixed)
        self.shares[writers, nodes : nodes + heads] = shares.T
        total, each = total[:, :, None, :count], each[..., :count, :]
        unaware = layer.project(total[:, :, 0] - direct[:, :, :count])
        for slot in range(3):
            inputs = [(unaware if i == slot else seen)[i][..., :count, :] for i in range(3)]
            changed = summed[:, :, None, :count] + layer.heads(layer.mix(*inputs)) - each
            middle = total + layer.with_bias(changed.flatten(2, 3)).view_as(changed)
            middle = middle.flatten(2, 3)
            after = layer.larger_takes_all(middle + layer.transform(middle), layer.after)
            values = self._relevance(after, number + 1).reshape(heads, count)
            self.without[first + slot * heads :][:heads, writers] = values
        return summed

    def _mlp(self, number: int, total: Tensor, direct: Tensor, writers: slice) -> Tensor:
        """Returns the relevant part of a layer's MLP's output; scores the edges of `writers` into the MLP.

        Args:
            number: the layer.
            total: the relevant part of the residual stream before the MLP, `[D, T, K, B]`.
            direct: how much of it is the sources' own output, `[D, T, K, B]`.
            writers: the sources that come before the MLP; the first of K.
        """
        layer, heads = self.layers[number], self.graph.n_heads
        written = layer.transform(total)
        count = writers.stop - writers.start
        if count > 0:
            self.shares[writers, (number + 1) * (heads + 1)] = _share(
                written[None, ..., :count, :], layer.written
            )
            unaware = layer.transform(total[:, :, :count] - direct[:, :, :count])
            after = layer.larger_takes_all(total[:, :, :count] + unaware, layer.after)
            reader = self.graph.readers_of_layer(number).stop
            self.without[reader, writers] = self._relevance(after, number + 1)
        return written

    def _relevance(self, relevant: Tensor, start: int) -> np.ndarray:
        """Returns the logit difference of the relevant part of the logits, `[K]`.

        Args:
            relevant: the relevant part of the residual stream before layer `start`, `[D, T, K, B]`.
            start: the layer from which it is propagated to the logits.
        """
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
    """Returns the relevant part's share of nodes' outputs, by mean absolute value over features and examples.

    Args:
        relevant: the relevant parts of N nodes' outputs, `[N, features, T, K, B]`.
        whole: the outputs, `[N, features, T, B]`.

    Returns:
        The shares, averaged over positions, `[N, K]`.
    """
    own = relevant.abs().mean((1, 4))
    rest = (whole.unsqueeze(-2) - relevant).abs().mean((1, 4))
    return (own / (own + rest + TOLERANCE)).mean(1).double().cpu().numpy()


def _biased(relevant: Tensor, whole: Tensor, bias: Tensor) -> Tensor:
    """Adds the relevant part of a linear map's bias: its share, by absolute value, of the map's output.

    Args:
        relevant: the map of the relevant part, without bias, `[..., F, T, K, B]`; F output features.
        whole: the map of the whole, without bias, `[..., F, T, B]`.
        bias: the bias, `[..., F]`.
    """
    size = relevant.abs()
    share = size / (size + (whole.unsqueeze(-2) - relevant).abs() + TOLERANCE)
    return relevant + bias[..., None, None, None] * share


def _norm(norm: torch.nn.Module, relevant: Tensor, whole: Tensor) -> Tensor:
    """Returns the relevant part of a LayerNorm's output, `[D, T, K, B]`.

    Args:
        norm: the LayerNorm; if it is none, nothing is changed.
        relevant: the relevant part of its input, `[D, T, K, B]`.
        whole: its input, `[D, T, B]`, whose scale is used for the relevant part.
    """
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
