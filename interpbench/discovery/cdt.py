"""Contextual decomposition for transformers (Hsu et al. 2024, section 3)."""

from collections.abc import Mapping
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.config import STRICT
from interpbench.discovery.method import Replacement, Runs, clean_and_patch, method, parts
from interpbench.tasks.problem import Problem
from interpbench.transformer.attention import attention_scores, softmax
from interpbench.transformer.layers import Block, Mlp, Norm

TOLERANCE = 1e-8


@method("cdt")
@dataclass(frozen=True, config=STRICT)
class ContextualDecomposition:
    """Splits every activation into a relevant part, due to a source, and the rest, and follows both forward.

    The source's relevant part is its output minus the replacement. Rules: linear maps act on each part, and
    their bias is shared out by the parts' sizes; a LayerNorm's scale is that of the whole; an activation f
    gives the relevant part f(whole) − f(rest); attention patterns are those of the whole, so that edges into
    queries and keys score exactly 0; output biases of attention belong to no head and stay with the rest.
    After each layer, where the parts have opposite signs, the larger takes all. Without LayerNorm its rule
    is empty.

    The score is the metric of the relevant part of the logits. A node's own score lets all readers see its
    relevant part, as in the paper; an edge's, only the edge's reader.

    Attributes:
        opposite_signs: apply the rule for opposite signs.
        replacement: what the source is compared with.
        absolute: rank by absolute value.
    """

    opposite_signs: bool = True
    replacement: Replacement = "mean_position"
    absolute: bool = True
    sign: ClassVar[str] = "larger: more of the difference between the answers' logits is due to the source"
    cost: ClassVar[str] = (
        "two forward passes, one per writer, and one per edge that is not into a query or key"
    )
    granularity: ClassVar[Literal["edge", "node"]] = "edge"
    exempt: ClassVar[Mapping[str, str]] = {
        "linear": "biases are shared out by size, and of parts with opposite signs the larger takes all"
    }

    @torch.no_grad()
    def __call__(self, problem: Problem) -> Scores:
        """Follows many edges' parts in one call."""
        graph, cost = problem.graph, Cost()
        runs = clean_and_patch(problem, "shift", self.replacement, cost)
        scores = np.where(graph.legal, 0.0, np.nan)
        edges = [(r, w) for r, w in np.argwhere(graph.legal).tolist() if graph.readers[r].slot not in "qk"]
        readers = torch.eye(len(graph.readers))[[r for r, _ in edges]]
        columns = torch.from_numpy(graph.legal.T).to(readers)
        sources = [*(w for _, w in edges), *range(len(graph.nodes))]
        values = self._effects(problem, runs, torch.cat([readers, columns]), sources, cost)
        for (reader, writer), value in zip(edges, values):
            scores[reader, writer] = value
        nodes = np.array(values[len(edges) :])
        if self.absolute:
            scores, nodes = np.abs(scores), np.abs(nodes)
        return Scores(graph, scores, nodes, cost)

    def _effects(
        self, problem: Problem, runs: Runs, masks: Tensor, sources: list[int], cost: Cost
    ) -> list[float]:
        """Returns minus the metric of the relevant logits, to first order the effect of replacing the source.

        Args:
            problem: the problem.
            runs: its clean and replaced activations.
            masks: `[K, R]`: which readers see the source's relevant part.
            sources: `[K]`: the writers.
            cost: gets the passes added.
        """
        examples, values = len(problem.clean), list[float]()
        for some in parts(len(sources), examples):
            chosen = sources[some]
            relevant = (runs.clean - runs.patch)[chosen].permute(1, 2, 0, 3)  # [D, T, K, B]
            logits = self._follow(problem, runs, masks[some].to(runs.clean), relevant)
            values += (-runs.metric(logits).mean(1)).tolist()
            cost.count(len(chosen) * examples)
        return values

    def _follow(self, problem: Problem, runs: Runs, masks: Tensor, source: Tensor) -> Tensor:
        """Returns the relevant part `[V, T, K, B]` of the logits.

        Args:
            problem: the problem.
            runs: its clean run.
            masks: `[K, R]`.
            source: `[D, T, K, B]`: relevant parts of what sources write.
        """
        network, heads = problem.network, problem.graph.n_heads
        seen = masks.T[:, None, None, :, None]  # [R, 1, 1, K, 1]
        stream = torch.zeros_like(source)
        for layer in range(problem.graph.n_layers):
            block = cast(Block, network.blocks[layer])
            whole, first = runs.residuals[layer], problem.graph.readers_of_layer(layer).start
            values = stream + seen[first + 2 * heads : first + 3 * heads] * source  # [H, D, T, K, B]
            normed = _norm(block.ln1, values, whole)
            stream = stream + _attention(block, normed, block.ln1(whole))
            written = runs.clean[1 + layer * (heads + 1) :][:heads].sum(0)
            middle = whole + written + block.attn.b_O[:, None, None]
            normed = _norm(block.ln2, stream + seen[first + 3 * heads] * source, middle)
            stream = stream + _mlp(block.mlp, normed, block.ln2(middle))
            if self.opposite_signs:
                stream = _larger_takes_all(stream, runs.residuals[layer + 1].unsqueeze(2))
        whole = runs.residuals[-1]
        normed = _norm(network.ln_final, stream + seen[-1] * source, whole)
        unembed = network.unembed
        return _linear(normed, network.ln_final(whole), unembed.W_U, unembed.b_U)


def _share(relevant: Tensor, whole: Tensor) -> Tensor:
    """Returns the relevant part's share by size: |relevant| / (|relevant| + |rest|)."""
    size = relevant.abs()
    return size / (size + (whole - relevant).abs() + TOLERANCE)


def _linear(relevant: Tensor, whole: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Maps `[D, T, K, B]` by `weight [D, F]` to `[F, T, K, B]`; `whole` is `[D, T, B]`."""
    own, all_of_it = (torch.einsum("df,d...->f...", weight, x) for x in (relevant, whole))
    return own + bias[:, None, None, None] * _share(own, all_of_it.unsqueeze(2))


def _norm(norm: torch.nn.Module, relevant: Tensor, whole: Tensor) -> Tensor:
    """Normalises `[..., D, T, K, B]` by the scale of the whole `[D, T, B]`."""
    if not isinstance(norm, Norm):
        return relevant
    scale = norm.scale(whole - whole.mean(0)).unsqueeze(2)
    normed = (relevant - relevant.mean(-4, keepdim=True)) / scale
    if not hasattr(norm, "w"):
        return normed
    weight, bias = (x[:, None, None, None] for x in (norm.w, norm.b))
    return normed * weight + bias * _share(relevant, whole.unsqueeze(2))


def _attention(block: Block, relevant: Tensor, whole: Tensor) -> Tensor:
    """Returns the relevant part `[D, T, K, B]` of what the heads write, from what each head's values see."""
    attention = block.attn
    q, k, v = (
        torch.einsum("hde,dtb->hetb", weight, whole) + bias[:, :, None, None]
        for weight, bias in (
            (attention.W_Q, attention.b_Q),
            (attention.W_K, attention.b_K),
            (attention.W_V, torch.zeros_like(attention.b_V)),
        )
    )
    pattern = softmax(attention_scores(q * attention.W_Q.shape[2] ** -0.5, k, attention.causal))
    own = torch.einsum("hde,hdtkb->hetkb", attention.W_V, relevant)
    own = own + attention.b_V[:, :, None, None, None] * _share(own, v.unsqueeze(3))
    return torch.einsum("hqtb,hetkb,hed->dqkb", pattern, own, attention.W_O)


def _mlp(mlp: Mlp, relevant: Tensor, whole: Tensor) -> Tensor:
    """Returns the relevant part `[D, T, K, B]` of what an MLP writes."""
    before = torch.einsum("dm,dtb->mtb", mlp.W_in, whole) + mlp.b_in[:, None, None]
    part = _linear(relevant, whole, mlp.W_in, mlp.b_in)
    total = mlp.activate(before)
    active = total.unsqueeze(2) - mlp.activate(before.unsqueeze(2) - part)
    return _linear(active, total, mlp.W_out, mlp.b_out)


def _larger_takes_all(relevant: Tensor, whole: Tensor) -> Tensor:
    """Where the relevant part and the rest have opposite signs, gives everything to the larger."""
    rest = whole - relevant
    winner = torch.where(relevant.abs() >= rest.abs(), whole.expand_as(relevant), 0)
    return torch.where(relevant * rest < 0, winner, relevant)
