"""How far a head of the last layer can move an answer: a bound, so that most of its edges need no run.

After such a head come one MLP and the unembedding, position by position. Let the head write `z W_O` more than
on the clean run, h be the MLP's hidden units before its activation function f, and Q = W_out (u - u') for the
directions u and u' of two logits. Their difference moves by a linear part g · z, and by

    Σ_m Q_m (f(h_m + d_m) - f(h_m) - f'(h_m) d_m),  d_m = z · (W_O W_in)_m,

whose terms are at most ½ max|f''| |Q_m| d_m² (Taylor). So it moves by less than |g| |z| + c |z|² (Cauchy and
Schwarz). Where that is less than the margin the answer stays, whatever edge has made the head write it.

Shapes as in `transformer/model.py`; C logits that compete with an answer, K edges, P positions.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor

from interpbench.training.evaluate import Activations, Evaluation
from interpbench.training.local import Head
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.layers import Block, Mlp

CURVATURE = {"gelu": 0.798, "gelu_new": 0.798}
"""The largest second derivative of an activation function; ReLU has none."""
ROUNDING = 0.99
"""The share of a margin that a bound must stay below: what is computed is rounded."""


def is_bounded(shape: TransformerConfig) -> bool:
    """Returns whether there is a bound: without a norm, with a smooth activation function and no gate."""
    return shape.normalization is None and shape.activation in CURVATURE and shape.mlp == "plain"


class Bound:
    """A bound for all heads of the last layer, on a clean run.

    Args:
        evaluation: the network, of a shape that `is_bounded`.
        base: the clean run.
        answer: `[N, pos]`, what the program answers.
    """

    def __init__(self, evaluation: Evaluation, base: Activations, answer: np.ndarray):
        network, layer = evaluation.network, evaluation.network.cfg.n_layers - 1
        self.block: Block = network.blocks[layer]  # type: ignore[assignment]
        nodes, mlp = network.cfg.graph.nodes, cast(Mlp, self.block.mlp)
        scored = evaluation.task.scored(answer)
        self.positions = torch.from_numpy(1 + np.flatnonzero(scored.any(0))).to(evaluation.device)
        self.scored = torch.from_numpy(scored[:, scored.any(0)].T).to(evaluation.device)  # [P, N]
        heads = [place for place, node in enumerate(nodes) if node.layer == layer and node.head is not None]
        middle = base.residuals[layer] + base.stack[heads[0] : heads[-1] + 1].sum(0)
        middle = (middle + self.block.attn.b_O[:, None, None])[:, self.positions]
        with torch.enable_grad():
            hidden = torch.addmm(mlp.b_in[:, None], mlp.W_in.T, middle.flatten(1)).detach().requires_grad_()
            (self.slopes,) = torch.autograd.grad(mlp.activate(hidden).sum(), hidden)  # [M, P × N]
        self.unembed = network.unembed.W_U
        self.margins, self.answers = _margins(evaluation, base, answer, self.positions)
        self.curvature = CURVATURE[mlp.activation]

    @torch.no_grad()
    def of(self, head: Head) -> tuple[Tensor, Tensor]:
        """Returns how fast what a head writes eats up a margin: |g| and c, each divided by it, `[P, N]`."""
        mlp, write = self.block.mlp, head.output.T
        inwards = write @ mlp.W_in  # [E, M]
        worth = mlp.W_out @ self.unembed  # [M, V]
        shape = len(write), *self.scored.shape
        by_logit = (
            torch.stack([inwards @ (self.slopes * column[:, None]) for column in worth.T])
            + (write @ self.unembed).T[..., None]
        )
        by_logit = by_logit.view(-1, *shape)  # [V, E, P, N]
        squares = 0.5 * self.curvature * inwards.square().sum(0)  # [M]
        if self.answers is None:
            linear, curved = by_logit.norm(dim=1), (worth.abs() * squares[:, None]).sum(0)[:, None, None]
        else:
            own = by_logit.gather(0, self.answers[None, None].expand(1, *shape))
            linear = (own - by_logit).norm(dim=1)
            pairs = torch.stack(
                [((worth[:, c, None] - worth).abs() * squares[:, None]).sum(0) for c in range(worth.shape[1])]
            )
            curved = pairs[self.answers].permute(2, 0, 1)
        linear, curved = (linear / self.margins).amax(0), (curved / self.margins).amax(0)
        return linear.masked_fill(~self.scored, 0.0), curved.masked_fill(~self.scored, 0.0)

    @torch.no_grad()
    def harmless(self, rates: tuple[Tensor, Tensor], changes: Tensor) -> Tensor:
        """Returns on which rows no answer can change, `[K, N]` bool; all of them are right on the clean run.

        Args:
            rates: of the head, by `of`.
            changes: `[K, E, T, N]`, by how much the mixed values of the head change.
        """
        first, *others = changes[:, :, self.positions].unbind(1)
        squares = first.square()
        for part in others:  # features are few, and not next to each other in memory
            squares.addcmul_(part, part)
        size = squares.sqrt_()  # [K, P, N]
        linear, curved = rates
        right = ((self.margins > 0).all(0) | ~self.scored).all(0)
        return (size * (linear + curved * size) < ROUNDING).all(1) & right


def _margins(
    evaluation: Evaluation, base: Activations, answer: np.ndarray, positions: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Returns how far each logit is behind the answer's, `[V, P, N]`, and the answers `[P, N]`.

    The answer's own is infinitely far. For numbers, how far the one logit is from being wrong, and None.
    """
    if evaluation.causal_model.numerical:
        return evaluation.margins(base.logits, answer)[None, positions - 1], None
    logits = base.logits[:, positions]
    codes = np.where(answer < 0, 0, answer).T.astype(np.int64)
    answers = torch.from_numpy(codes).to(logits.device)[positions - 1]
    margins = logits.gather(0, answers[None]) - logits
    return margins.scatter(0, answers[None], torch.inf), answers
