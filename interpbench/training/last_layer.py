"""A bound on how far a head of the last layer can move the output, so that most of its edges need no run.

After such a head come one MLP and the unembedding, position by position. Let z be the change of the head's
mixed values, so that it writes `z W_O` more than on the clean run. Let h be the MLP's hidden units before its
activation function f, and Q = W_out (u - u') for the directions u and u' of two logits. The difference of
these logits changes by a linear part g · z, and by

    Σ_m Q_m (f(h_m + d_m) - f(h_m) - f'(h_m) d_m),  d_m = z · (W_O W_in)_m,

whose terms are at most ½ max|f''| |Q_m| d_m² (Taylor). So it changes by less than |g| |z| + c |z|² (Cauchy
and Schwarz). Where that is less than the margin, the output stays the same, whichever edge is patched.

Sums are rounded: a sum of n terms is off by at most n eps times the sum of their sizes (Higham 2002, section
3.1). What of this can reach a logit, beginning with the sum of what heads write, is subtracted from the
margin, for the clean and for the patched run. The rounding of z is left out, but random runs check bounds.

Shapes: D d_model, M d_mlp, E d_head, V logits, T positions, P scored positions, N rows, K edges; X = P × N.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor

from interpbench.training.interventional_accuracy import Activations, Evaluation
from interpbench.training.one_node import Head
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.layers import Block, Mlp

CURVATURE = {"gelu": 0.798, "gelu_new": 0.798}
"""The largest second derivative of each activation function that has one; ReLU has none."""
SLOPE = 1.13
"""The largest slope of these activation functions."""
LARGE = 1e30
"""The size of logits from which on a bound is not used, as they are close to being infinite."""
BELOW = 0.99
"""The share of a margin that a bound must stay below; it is below 1 as bounds are rounded themselves."""


def is_bounded(shape: TransformerConfig) -> bool:
    """Returns whether there is a bound: for networks without a norm, with GELU and without gated MLPs."""
    return shape.normalization is None and shape.activation in CURVATURE and shape.mlp == "plain"


class Bound:
    """The bound for all heads of the last layer, on some bases.

    Args:
        evaluation: the network, whose configuration `is_bounded`.
        base: the bases.
        answer: the program's output, `[N, pos]`.
    """

    def __init__(self, evaluation: Evaluation, base: Activations, answer: np.ndarray):
        network, layer = evaluation.network, evaluation.network.cfg.n_layers - 1
        self.block: Block = network.blocks[layer]  # type: ignore[assignment]
        nodes, mlp = network.cfg.graph.nodes, cast(Mlp, self.block.mlp)
        scored = evaluation.task.scored(answer)
        self.positions = torch.from_numpy(1 + np.flatnonzero(scored.any(0))).to(evaluation.device)
        self.scored = torch.from_numpy(scored[:, scored.any(0)].T).to(evaluation.device)  # [P, N]
        heads = [place for place, node in enumerate(nodes) if node.layer == layer and node.head is not None]
        before, written = base.residuals[layer], base.stack[heads[0] : heads[-1] + 1]
        bias = self.block.attn.b_O[:, None, None]
        middle = (before + written.sum(0) + bias)[:, self.positions]
        terms = (before.abs() + written.abs().sum(0) + bias.abs())[:, self.positions]
        self.hidden = torch.addmm(mlp.b_in[:, None], mlp.W_in.T, middle.flatten(1))
        with torch.enable_grad():
            hidden = self.hidden.detach().requires_grad_()
            (self.slopes,) = torch.autograd.grad(mlp.activate(hidden).sum(), hidden)  # [M, P × N]
        self.unembed, self.eps = network.unembed.W_U, torch.finfo(middle.dtype).eps
        self.terms = len(heads) + 2
        self.margins, self.answers = _margins(evaluation, base, answer, self.positions)
        self.finite = (base.logits[:, self.positions].abs() < LARGE).all(0)
        self.rounded = self._rounded(terms.flatten(1), middle.flatten(1), self.hidden, 1).view(
            -1, *self.scored.shape
        )
        self.curvature = CURVATURE[mlp.activation]

    def _rounded(self, terms: Tensor, middle: Tensor, hidden: Tensor, biases: int) -> Tensor:
        """Returns a bound on how far rounding can move logits, `[V, X]`.

        Args:
            terms: the sum of the sizes of the terms of the residual stream before the MLP, `[D, X]`.
            middle: the residual stream before the MLP, `[D, X]`.
            hidden: the MLP's hidden units before the activation function, `[M, X]`.
            biases: 1, or 0 to leave biases out.
        """
        mlp, eps = cast(Mlp, self.block.mlp), self.eps
        sizes = [weight.abs() for weight in (mlp.W_in.T, mlp.W_out.T, self.unembed.T)]
        inwards, outwards, unembed = sizes
        by_middle = self.terms * eps * terms
        summed = inwards @ middle.abs() + biases * mlp.b_in.abs()[:, None]
        by_hidden = (len(middle) + 2) * eps * summed + inwards @ by_middle
        active = hidden.abs()  # at least that of what the activation function makes of it
        by_active = SLOPE * by_hidden + 4 * eps * active
        added = outwards @ active + biases * mlp.b_out.abs()[:, None]
        by_stream = by_middle + (len(active) + 2) * eps * added + outwards @ by_active
        stream = middle.abs() + added
        return unembed @ (by_stream + (len(middle) + 4) * eps * stream)

    @torch.no_grad()
    def of(self, head: Head) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the bound of a head: three numbers `[P, N]`, each divided by the margin.

        They are what rounding alone may take of the margin, |g|, and c.
        """
        mlp, write = cast(Mlp, self.block.mlp), head.output.T
        inwards = write @ mlp.W_in  # [E, M]
        worth = mlp.W_out @ self.unembed  # [M, V]
        shape = len(write), *self.scored.shape
        by_logit = torch.stack([inwards @ (self.slopes * column[:, None]) for column in worth.T])
        by_logit = (by_logit + (write @ self.unembed).T[..., None]).view(-1, *shape)  # [V, E, P, N]
        squares = 0.5 * self.curvature * inwards.square().sum(0)  # [M]
        longest, hidden = write.norm(dim=0)[:, None], inwards.norm(dim=0)[:, None]
        more = self._rounded(longest, longest, hidden, 0)[:, :, None]  # [V, 1, 1], for each unit of size
        fixed = self.rounded
        if self.answers is None:
            linear, curved = by_logit.norm(dim=1), (worth.abs() * squares[:, None]).sum(0)[:, None, None]
        else:
            own = by_logit.gather(0, self.answers[None, None].expand(1, *shape))
            linear = (own - by_logit).norm(dim=1)
            pairs = [((column[:, None] - worth).abs() * squares[:, None]).sum(0) for column in worth.T]
            curved = torch.stack(pairs)[self.answers].permute(2, 0, 1)
            fixed = fixed + fixed.gather(0, self.answers[None])
            more = more + more[:, 0, 0][self.answers][None]
        rates = (2 * fixed, linear + more, curved)
        fixed, linear, curved = ((rate / self.margins).amax(0).masked_fill(~self.scored, 0) for rate in rates)
        return fixed, linear, curved

    @torch.no_grad()
    def harmless(self, rates: tuple[Tensor, Tensor, Tensor], changes: Tensor) -> Tensor:
        """Returns bool `[K, N]`, the rows on which no output can change and which are right on the clean run.

        Args:
            rates: the bound of the head, which `of` returns.
            changes: the changes of the head's mixed values, `[K, E, T, N]`.
        """
        first, *others = changes[:, :, self.positions].unbind(1)
        squares = first.square()
        for part in others:  # features are few, and not next to each other in memory
            squares.addcmul_(part, part)
        size = squares.sqrt_()  # [K, P, N]
        fixed, linear, curved = rates
        right = (((self.margins > 0).all(0) & self.finite) | ~self.scored).all(0)
        return (fixed + size * (linear + curved * size) < BELOW).all(1) & right


def _margins(
    evaluation: Evaluation, base: Activations, answer: np.ndarray, positions: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Returns the margins of the right class over the others, `[V, P, N]`, and the right classes `[P, N]`.

    The margin over the right class itself is infinite. Of numerical outputs, it returns the margin by which
    the number is right, `[1, P, N]`, and None.
    """
    if evaluation.causal_model.numerical:
        return evaluation.margins(base.logits, answer)[None, positions - 1], None
    logits = base.logits[:, positions]
    codes = np.where(answer < 0, 0, answer).T.astype(np.int64)
    answers = torch.from_numpy(codes).to(logits.device)[positions - 1]
    margins = logits.gather(0, answers[None]) - logits
    return margins.scatter(0, answers[None], torch.inf), answers
