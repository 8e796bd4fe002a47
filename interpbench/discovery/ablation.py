"""The metric of a network with partly ablated edges, and its gradient: the loss of methods that learn gates.

Letters of shapes: K circuits, W writers, R readers, D features of the residual stream, E features of a head,
L layers, T positions, B examples; F is the number of (position, example) that are computed.
"""

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
"""An `AblationValue`, or `learned` (optimal ablation; Li & Janson 2024): one vector for each circuit and
writer, the same for all inputs and positions, which starts as the mean of the corrupted activations and is
trained together with the gates. As in the authors' code, BOS keeps its clean activations, a vector gets
gradients only from edges that are replaced entirely, and a head's vector is learned before the output matrix
W_O."""


@dataclass(frozen=True)
class _Chunk:
    """Some of the examples; the axes T and B are 1 and F where only some positions are computed.

    Attributes:
        embedding: the clean output of the embedding, `[D, T, B]`.
        patch: the ablation values, `[W, D, T, B]`.
        metric: the metric of these examples.
        examples: the number of examples, B.
        only: the scored position of each example, `[B]`; None if an example has several.
        packed: which positions are computed; None for all.
    """

    embedding: Tensor
    patch: Tensor
    metric: Metric
    examples: int
    only: Tensor | None
    packed: Packed | None


class Ablation:
    """Runs of a problem's network in which edges are ablated to some degree.

    If one position of each example is scored, the last layer is computed there only. In causal networks with
    more than a few positions, no later position is computed either, and none before the first position at
    which an ablation value can differ from the clean activation.

    Args:
        problem: the network and its inputs.
        metric: the name of a metric.
        ablation: what replaces activations.
        cost: the clean run, the corrupted run and every later pass are added to it.
        circuits: how many circuits have ablation values of their own, if these are learned.
        at_once: how many circuits run in one call of `loss`.
    """

    def __init__(
        self,
        problem: Problem,
        metric: str,
        ablation: GateAblationValue,
        cost: Cost,
        circuits: int,
        at_once: int,
    ):
        fixed: AblationValue = "mean" if ablation == "learned" else ablation
        runs = clean_and_patch(problem, metric, fixed, cost)
        self.network, self.cost, self.examples = problem.network, cost, len(problem.clean)
        if ablation == "learned":
            runs.patch[:, :, 0] = runs.clean[:, :, 0]
        self._runs = runs
        causal = problem.network.cfg.attention == "causal"  # activations at BOS are the same in every run
        same = bool((problem.clean[:, 0] == problem.clean[0, 0]).all())
        self._alike, self._bos = (ablation == "learned" and of for of in (causal and same, not causal))
        live = None if ablation == "learned" else _live(problem, fixed)
        self._chunks = [_chunk(problem, runs, rows, live) for rows in chunks(problem, self.examples, at_once)]
        self.like = runs.clean.new_empty(0)
        """An empty tensor with the data type and the device of the activations."""
        self.constants: list[Tensor] = []
        """The parameters of learned ablation values, at first 0: of heads, before W_O, `[circuits, L × heads,
        E]`; of the embedding and the MLPs `[circuits, 1 + L, D]`. Empty if ablation values are fixed."""
        if ablation == "learned":
            cfg = problem.network.cfg
            shapes = (cfg.n_layers * cfg.n_heads, cfg.d_head), (1 + cfg.n_layers, cfg.d_model)
            self.constants = [runs.clean.new_zeros(circuits, *shape).requires_grad_() for shape in shapes]

    @property
    def shifts(self) -> Tensor | None:
        """What `constants` add to the ablation values of each circuit, `[circuits, W, D]`; None if fixed."""
        if not self.constants:
            return None
        mixed, others = self.constants
        blocks = [cast(Block, block) for block in self.network.blocks]
        heads = torch.einsum("che,hed->chd", mixed, torch.cat([block.attn.W_O for block in blocks]))
        layers = torch.cat([heads.unflatten(1, (len(blocks), -1)), others[:, 1:, None]], 2)
        return torch.cat([others[:, :1], layers.flatten(1, 2)], 1)

    def loss(self, removed: Tensor, shifts: Tensor | None = None) -> Tensor:
        """Returns the mean metric of circuits over all examples, which can be differentiated.

        Examples are run in chunks, and each chunk's gradient is taken at once, to save memory. The result is
        the value of the metric plus a term that is 0 and has this gradient.

        Args:
            removed: how far each edge is ablated, from 0 to 1, `[K, R, W]`.
            shifts: what is added to the ablation values, `[K, W, D]`; None if these are fixed.

        Returns:
            The mean metric of each circuit, `[K]`.
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
        """Returns the metric of circuits, each on an example of its own, which can be differentiated.

        Args:
            removed: how far each edge is ablated, from 0 to 1, `[K, R, W]`.
            rows: the index of the example that each circuit is run on, `[K]`.
            shifts: what is added to the ablation values, `[K, W, D]`; None if these are fixed.

        Returns:
            The metric of each circuit, `[K]`.
        """
        runs = self._runs
        patch = runs.patch[..., :1] if self._alike else runs.patch[..., rows, None]
        circuits = Circuits(removed, patch, shifts=shifts, whole=True, bos=self._bos)
        logits = frozen_run(self.network, runs.clean[0][..., rows, None], circuits)
        self.cost.count(len(rows), backward=True)
        return runs.metric.part(rows)(logits[..., 0])


def _live(problem: Problem, ablation: AblationValue) -> Tensor | None:
    """Returns the positions, bool `[T, B]`, at which ablations can change the metric; None if all may."""
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
    elif ablation == "mean_position":  # where all inputs agree, the mean is the clean activation itself
        differs = ((clean != clean[:1]) | (corrupted != clean[:1])).any(0).expand_as(clean)
    positions = torch.arange(length, device=clean.device)
    wanted = only[:, None]
    return ((differs.cumsum(1) > 0) & (positions <= wanted) | (positions == wanted)).T


@torch.no_grad()
def _chunk(problem: Problem, runs: Runs, rows: slice, live: Tensor | None) -> _Chunk:
    """Returns some of the examples; `live`, bool `[T, B]`, says which positions to compute, None all."""
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
