"""Networks with the same outputs and other gradients: what relevance and gradient-correction methods change.

A rule is a module with the same forward pass. Weights are shared with the original network.
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
    """What to change in the backward pass.

    Attributes:
        freeze_norm: the scale of a LayerNorm is a constant.
        ratio_activation: an activation f(x) is x times the constant f(x)/x.
        freeze_pattern: attention patterns are constants.
        temperature: the softmax passes gradients as if its scores were divided by this.
        qkv: gradients by queries, keys and values are multiplied by these.
    """

    freeze_norm: bool = False
    ratio_activation: bool = False
    freeze_pattern: bool = False
    temperature: float = 1.0
    qkv: tuple[float, float, float] = (1.0, 1.0, 1.0)


class RuledNorm(Norm):
    """LayerNorm whose scale passes no gradient."""

    def normal(self, x: Tensor) -> Tensor:
        """Returns `x` with mean 0, divided by its standard deviation as a constant."""
        centred = x - x.mean(-3, keepdim=True)
        return centred / self.scale(centred).detach()


class RuledMlp(Mlp):
    """An MLP whose activation is a constant multiple of its input (the identity rule)."""

    def activate(self, hidden: Tensor) -> Tensor:
        """Applies the activation function; where the input is 0, its gradient is 0."""
        with torch.no_grad():
            active = super().activate(hidden)
            ratio = torch.where(hidden == 0, 0, active / hidden)
        return active + ratio * (hidden - hidden.detach())


class RuledAttention(Attention):
    """Attention with a changed softmax and scaled gradients."""

    rules: Rules

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        """Returns the ordinary pattern."""
        q, k = (scaled(self.placed(x), scale) for x, scale in zip((q, k), self.rules.qkv))
        scores = attention_scores(q, k, self.causal, at)
        if self.rules.freeze_pattern:
            return scores.softmax(2).detach()
        result: Tensor = _Softmax.apply(scores, self.rules.temperature)  # type: ignore[assignment]
        return result

    def mix(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Averages values by the attention pattern."""
        return super().mix(pattern, scaled(v, self.rules.qkv[2]))


class _Softmax(Function):
    """Softmax over keys that passes gradients by the pattern of another temperature T.

    Backward: p ⊙ (g − ⟨g, p⟩) with p = softmax(scores / T); the factor 1/T is left out, as in GIM.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, temperature: float) -> Tensor:
        """Returns the ordinary pattern."""
        ctx.save_for_backward(scores)
        ctx.temperature = temperature
        return scores.softmax(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Uses the other pattern."""
        (scores,) = ctx.saved_tensors
        pattern = (scores / ctx.temperature).softmax(2)
        (grad,) = grads
        return pattern * (grad - (grad * pattern).sum(2, keepdim=True)), None


def scaled(x: Tensor, scale: float) -> Tensor:
    """Returns `x`, whose gradient is multiplied by `scale`."""
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
