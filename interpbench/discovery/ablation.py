"""The metric of networks whose edges are replaced in part, with its gradient: learned gates descend on it."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor

from interpbench.circuits.scores import Cost
from interpbench.discovery.method import AblationValue, Runs, chunks, clean_and_patch
from interpbench.tasks.problem import Metric, Problem
from interpbench.transformer.attention import by_rows
from interpbench.transformer.fast.circuits import Circuits
from interpbench.transformer.fast.frozen_run import frozen_run
from interpbench.transformer.fast.packed import Packed
from interpbench.transformer.layers import Block

GateAblationValue = Literal["learned", AblationValue]
"""An `AblationValue`, or `learned`: one vector for each circuit and writer, the same for all inputs and
positions, trained with the gates from the corrupted inputs' mean (optimal ablation; Li & Janson 2024). As in
their code, BOS keeps what it has on the clean input, a vector learns only from edges that are replaced
whole, and what a head writes is learned before its output matrix."""


@dataclass(frozen=True)
class _Chunk:
    """Some examples, as every step needs them; T × B is 1 × F if only some positions are computed.

    Attributes:
        embedding: `[D, T, B]`.
        patch: `[W, D, T, B]`.
        metric: of the logits that the network gives.
        examples: B.
        only: `[B]`: the position that the metric takes, if it is one.
        packed: which positions are computed; None for all.
    """

    embedding: Tensor
    patch: Tensor
    metric: Metric
    examples: int
    only: Tensor | None
    packed: Packed | None


class Ablation:
    """Networks with replaced edges on a problem's inputs.

    Where one position of each example counts, the last layer is computed there alone. In causal networks of
    more than a few positions, nothing is computed after it either, nor before the first position at which an
    ablation value can differ from what it replaces.

    Args:
        problem: the problem.
        metric: the name of a metric.
        ablation: what takes the place of activations.
        cost: gets the clean and the corrupted run added, and each pass.
        circuits: how many have ablation values of their own, if these are learned.
        candidates: how many there are in a call of `loss`.
    """

    def __init__(
        self,
        problem: Problem,
        metric: str,
        ablation: GateAblationValue,
        cost: Cost,
        circuits: int,
        candidates: int,
    ):
        fixed: AblationValue = "mean" if ablation == "learned" else ablation
        runs = clean_and_patch(problem, metric, fixed, cost)
        self.network, self.cost, self.examples = problem.network, cost, len(problem.clean)
        if ablation == "learned":
            runs.patch[:, :, 0] = runs.clean[:, :, 0]
        self._runs = runs
        causal = problem.network.cfg.attention == "causal"  # and so BOS is the same in every run
        same = bool((problem.clean[:, 0] == problem.clean[0, 0]).all())
        self._alike, self._bos = (ablation == "learned" and of for of in (causal and same, not causal))
        live = None if ablation == "learned" else _live(problem, fixed)
        self._chunks = [
            _chunk(problem, runs, rows, live) for rows in chunks(problem, self.examples, candidates)
        ]
        self.like = runs.clean.new_empty(0)
        """Of the activations' type, on their device."""
        self.constants: list[Tensor] = []
        """Zeros to learn these values from: `[circuits, heads, E]` and, of others, `[circuits, 1 + L, D]`."""
        if ablation == "learned":
            cfg = problem.network.cfg
            shapes = (cfg.n_layers * cfg.n_heads, cfg.d_head), (1 + cfg.n_layers, cfg.d_model)
            self.constants = [runs.clean.new_zeros(circuits, *shape).requires_grad_() for shape in shapes]

    @property
    def shifts(self) -> Tensor | None:
        """`[circuits, W, D]`: what circuits add to learned ablation values, from `constants`."""
        if not self.constants:
            return None
        mixed, others = self.constants
        blocks = [cast(Block, block) for block in self.network.blocks]
        heads = torch.einsum("che,hed->chd", mixed, torch.cat([block.attn.W_O for block in blocks]))
        layers = torch.cat([heads.unflatten(1, (len(blocks), -1)), others[:, 1:, None]], 2)
        return torch.cat([others[:, :1], layers.flatten(1, 2)], 1)

    def loss(self, removed: Tensor, shifts: Tensor | None = None) -> Tensor:
        """Returns the metric `[K]`, with its gradient attached.

        The network runs on `removed` once, as a leaf; what comes back is the value plus a term that is 0 and
        whose gradient is the metric's, so that calls on part of the examples need no graph of their own.

        Args:
            removed: `[K, R, W]`: how much of each edge is replaced.
            shifts: `[K, W, D]` that is added to ablation values, if they are learned too.
        """
        count = len(removed)
        learned = [removed] if shifts is None else [removed, shifts]
        leaves = [tensor.detach().requires_grad_() for tensor in learned]
        values = removed.new_zeros(count)
        gradients = [torch.zeros_like(leaf) for leaf in leaves]
        for chunk in self._chunks:
            moved = None if shifts is None else leaves[1]
            circuits = Circuits(leaves[0], chunk.patch, shifts=moved, whole=True, bos=self._bos)
            logits = frozen_run(self.network, chunk.embedding, circuits, chunk.only, chunk.packed)
            each = chunk.metric(logits).sum(1) / self.examples
            values += each.detach()
            for total, gradient in zip(gradients, torch.autograd.grad(each.sum(), leaves)):
                total += gradient
            self.cost.count(chunk.examples * count, backward=True)
        attached = [((x - x.detach()) * gradient).sum((1, 2)) for x, gradient in zip(learned, gradients)]
        return values + torch.stack(attached).sum(0)

    def each(self, removed: Tensor, rows: Tensor, shifts: Tensor | None = None) -> Tensor:
        """Returns the metric `[K]` of candidates that have an example each, with its gradient attached.

        Args:
            removed: `[K, R, W]`: how much of each edge is replaced.
            rows: `[K]`: which example each candidate runs on.
            shifts: `[K, W, D]` that is added to ablation values, if they are learned too.
        """
        runs = self._runs
        patch = runs.patch[..., :1] if self._alike else runs.patch[..., rows, None]
        circuits = Circuits(removed, patch, shifts=shifts, whole=True, bos=self._bos)
        logits = frozen_run(self.network, runs.clean[0][..., rows, None], circuits)
        self.cost.count(len(rows), backward=True)
        return runs.metric.part(rows)(logits[..., 0])


def _live(problem: Problem, ablation: AblationValue) -> Tensor | None:
    """Returns at which positions `[T, B]` masks can change something that counts; None for no such bound."""
    clean, corrupted, only = problem.clean, problem.corrupted, problem.only
    length = clean.shape[1]
    cfg = problem.network.cfg
    if (
        only is None
        or cfg.attention != "causal"
        or cfg.positions != "learned"
        or by_rows(length, clean.device)
    ):
        return None
    differs = torch.ones_like(clean, dtype=torch.bool)
    if ablation == "resample":
        differs = clean != corrupted
    elif ablation == "mean_position":  # the mean of what is the same in all of them is that
        differs = ((clean != clean[:1]) | (corrupted != clean[:1])).any(0).expand_as(clean)
    positions = torch.arange(length, device=clean.device)
    wanted = only[:, None]
    return ((differs.cumsum(1) > 0) & (positions <= wanted) | (positions == wanted)).T


@torch.no_grad()
def _chunk(problem: Problem, runs: Runs, rows: slice, live: Tensor | None) -> _Chunk:
    """Cuts some examples, and what is computed of them, out of a problem's runs."""
    embedding, patch, metric = runs.clean[0, ..., rows], runs.patch[..., rows], runs.metric.part(rows)
    examples = embedding.shape[2]
    if problem.only is None:
        return _Chunk(embedding, patch, metric, examples, None, None)
    only = problem.only[rows]
    if live is None:
        return _Chunk(embedding, patch, metric.at(only), examples, only, None)
    blocks = [cast(Block, block) for block in problem.network.blocks]
    keys_and_values = [
        block.attn.project(block.ln1(residual[..., rows]), block.attn.maps(slice(1, 3)))
        for block, residual in zip(blocks, runs.cache.residuals)
    ]
    packed = Packed(live[:, rows], only, keys_and_values)
    return _Chunk(packed.pack(embedding), packed.pack(patch), metric.at(only), examples, None, packed)
