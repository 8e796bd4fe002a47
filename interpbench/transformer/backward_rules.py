"""Networks with the same outputs and other gradients, for relevance (RelP) and gradient correction (GIM).

A rule replaces a module by one with the same forward pass. Weights are shared with the original network.
Shapes: H heads, E d_head, D d_model, M d_mlp, Q positions of queries, K positions of keys, T positions, N
rows.
"""

import copy
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from interpbench.transformer.attention import attention_scores
from interpbench.transformer.layers import Attention, Block, Mlp, Norm
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class Rules:
    """The changes that a method makes to the backward pass; the defaults change nothing.

    Attributes:
        freeze_norm: whether the scale of a LayerNorm is treated as a constant.
        ratio_activation: whether an activation f(x) is treated as x times the constant f(x)/x.
        freeze_pattern: whether attention patterns are treated as constants.
        temperature: the softmax passes gradients as if its scores were divided by this number.
        qkv: the factors by which gradients of queries, keys and values are multiplied.
    """

    freeze_norm: bool = False
    ratio_activation: bool = False
    freeze_pattern: bool = False
    temperature: float = 1.0
    qkv: tuple[float, float, float] = (1.0, 1.0, 1.0)


class RuledNorm(Norm):
    """LayerNorm whose scale passes no gradient."""

    def normal(self, x: Tensor) -> Tensor:
        """Returns `x [..., D, T, N]` with mean 0 over D, divided by its standard deviation, a constant."""
        centred = x - x.mean(-3, keepdim=True)
        return centred / self.scale(centred).detach()


class RuledMlp(Mlp):
    """An MLP whose activation function passes gradients as x times a constant does (the identity rule)."""

    def activate(self, hidden: Tensor) -> Tensor:
        """Applies the activation function to `hidden [..., M, T, N]`; where that is 0, the gradient is 0."""
        with torch.no_grad():
            active = super().activate(hidden)
            ratio = torch.where(hidden == 0, 0, active / hidden)
        return active + ratio * (hidden - hidden.detach())


class RuledAttention(Attention):
    """Attention whose softmax passes other gradients, and whose queries, keys and values pass scaled ones."""

    rules: Rules

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns the ordinary pattern `[H, Q, K, N]`, with the gradients of the rules."""
        q, k = (scaled(self.placed(x), scale) for x, scale in zip((q, k), self.rules.qkv))
        scores = attention_scores(q, k, self.causal, at)
        if self.rules.freeze_pattern:
            return scores.softmax(2).detach()
        result: Tensor = _Softmax.apply(scores, self.rules.temperature)  # type: ignore[assignment]
        return result

    def mix(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Returns values averaged by the attention pattern, `[H, E, Q, N]`; values pass scaled gradients."""
        return super().mix(pattern, scaled(v, self.rules.qkv[2]))


class _Softmax(Function):
    """A softmax over keys whose backward pass uses the pattern of another temperature τ.

    The gradient is p ⊙ (g − ⟨g, p⟩) with p = softmax(scores / τ); the factor 1/τ is left out, as in GIM.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, temperature: float) -> Tensor:
        """Returns the ordinary pattern `[H, Q, K, N]`."""
        ctx.save_for_backward(scores)
        ctx.temperature = temperature
        return scores.softmax(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Returns the gradient of the scores by the pattern of the other temperature."""
        (scores,) = ctx.saved_tensors
        pattern = (scores / ctx.temperature).softmax(2)
        (grad,) = grads
        return pattern * (grad - (grad * pattern).sum(2, keepdim=True)), None


def scaled(x: Tensor, scale: float) -> Tensor:
    """Returns `x` unchanged; in the backward pass its gradient is multiplied by `scale`."""
    return x if scale == 1 else x.detach() + scale * (x - x.detach())


def with_rules(network: Transformer, rules: Rules) -> Transformer:
    """Returns a network with the same weights and outputs, whose gradients follow the rules."""
    ruled = copy.deepcopy(network, {id(parameter): parameter for parameter in network.parameters()})
    for block in ruled.blocks:
        assert isinstance(block, Block)
        attention = cast(RuledAttention, block.attn)
        attention.__class__, attention.rules = RuledAttention, rules
        if rules.ratio_activation:
            cast(RuledMlp, block.mlp).__class__ = RuledMlp
    if rules.freeze_norm:
        for module in ruled.modules():
            if isinstance(module, Norm):
                module.__class__ = RuledNorm
    return ruled
