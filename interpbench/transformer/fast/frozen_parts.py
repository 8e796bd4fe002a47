"""Attention and MLP of frozen networks, whose weights get no gradient: one step each, in cached pieces.

Shapes as in `model.py`; Q positions of queries, K of keys.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import gelu

from interpbench.transformer.fast.packed import Packed

LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR

CACHED = 1 << 18
"""Numbers worked on at once: half of a core's cache."""


def fitting(each: int, count: int, device: torch.device) -> int:
    """Returns how many of `count` things, of `each` numbers each, fit into the cache; at least one."""
    return min(count, max(1, CACHED // each)) if device.type == "cpu" else count


def features_last(projected: Tensor) -> bool:
    """Returns whether `projected [..., E, T, N]` has the E features of a row next to each other in memory."""
    return projected.stride(-3) == 1 and projected.stride(-1) != 1


def attend_and_write(
    projected: Sequence[Tensor],
    output: Tensor,
    causal: bool,
    only: Tensor | None,
    packed: Packed | None = None,
    others: Tensor | None = None,
) -> Tensor:
    """Softmax attention and what heads write, for inputs with features last.

    Args:
        projected: queries, keys and values `[3, H, E, T, N]`, or queries `[1, H, E, Q, N]`, and keys and
            values `[2, H, E, T, N]`.
        output: `[H, D, E]`; gets no gradient.
        causal: whether keys come no later than queries.
        only: `[N]`: the queries' positions if there is one a row.
        packed: which positions T × N are; without `only` the queries' too.
        others: its keys and values in this layer.

    Returns:
        `[H, D, Q, N]`.
    """
    constants = output.detach(), causal, only, packed, others
    written: Tensor = _AttendAndWrite.apply(*constants, *projected)  # type: ignore[assignment]
    return written


class _AttendAndWrite(Function):
    """Batched products copy nothing but runs of E numbers; some heads at a time stay in the cache."""

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        causal: bool,
        only: Tensor | None,
        packed: Packed | None,
        others: Tensor | None,
        *projected: Tensor,
    ) -> Tensor:
        each = [one for some in projected for one in some.unbind()]
        fill: list[Tensor | None] = [None, None, None]
        queries = None if only is not None else packed
        keys, rows = each[1].shape[2:]
        if packed is not None and others is not None:
            fill = [torch.zeros_like(others[0]), *others.unbind()]
            keys, rows = packed.length, rows // packed.count * packed.examples
        count, length = len(output), keys if only is None else 1
        future = None
        if causal and only is not None:
            future = torch.arange(keys, device=only.device) > only[:, None, None]
        elif causal:
            future = torch.ones(length, keys, dtype=torch.bool, device=output.device).triu(1)
        written = output.new_empty(*output.shape[:2], *each[0].shape[2:])
        pattern = output.new_empty(count, rows, length, keys)
        at_once = fitting(rows * length * keys, count, output.device)
        ctx.save_for_backward(output, pattern)
        ctx.packings, ctx.pieces = (queries, packed, packed), []
        ctx.shapes = [some.shape for some in projected]
        for some in (slice(first, first + at_once) for first in range(0, count, at_once)):
            q, k, v = (
                _by_example(one[some], packing, None if rest is None else rest[some])
                for one, packing, rest in zip(each, ctx.packings, fill)
            )
            scores = (q @ k.transpose(1, 2)).unflatten(0, (-1, rows))
            if future is not None:
                scores.masked_fill_(future, -torch.inf)
            own = torch.softmax(scores, 3, out=pattern[some])
            mixed = _by_position(own.flatten(0, 1) @ v, queries, len(output[some]))
            torch.bmm(output[some], mixed.transpose(1, 2), out=written[some].flatten(2))
            ctx.pieces.append((some, q, k, v))
        return written

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        output, pattern = ctx.saved_tensors
        results = [
            grads[0].new_empty(kinds, heads, length, rows, width)
            for kinds, heads, width, length, rows in ctx.shapes
        ]
        each = [one for some in results for one in some.unbind()]
        for some, q, k, v in ctx.pieces:
            heads, own = len(output[some]), pattern[some].flatten(0, 1)
            by_mixed = grads[0][some].flatten(2).transpose(1, 2) @ output[some]
            by_mixed = by_mixed.view(heads, *results[0].shape[2:]).permute(0, 3, 1, 2)
            by_mixed = _by_example(by_mixed, ctx.packings[0], None)
            by_scores = torch.ops.aten._softmax_backward_data(by_mixed @ v.transpose(1, 2), own, 2, own.dtype)
            found = by_scores @ k, by_scores.transpose(1, 2) @ q, own.transpose(1, 2) @ by_mixed
            for result, one, packing in zip(each, found, ctx.packings):
                result[some] = _by_position(one, packing, heads).view_as(result[some])
        return *[None] * 5, *(result.permute(0, 1, 4, 2, 3) for result in results)


def _by_example(one: Tensor, packed: Packed | None, others: Tensor | None) -> Tensor:
    """Maps `[H, E, T, N]` to `[H × N, T, E]`; what is not computed is `others [H, M, E]`, or 0."""
    if packed is None:
        return one.permute(0, 3, 2, 1).flatten(0, 1)
    return packed.spread(one[:, :, 0].transpose(1, 2), others)


def _by_position(values: Tensor, packed: Packed | None, heads: int) -> Tensor:
    """Maps `[H × N, T, E]` to `[H, T × N, E]`."""
    if packed is not None:
        return packed.gather(values, heads)
    return values.unflatten(0, (heads, -1)).transpose(1, 2).flatten(1, 2)


def mlp(x: Tensor, w_in: Tensor, b_in: Tensor, w_out: Tensor, b_out: Tensor, activation: str) -> Tensor:
    """Returns an MLP's output `[D, T, N]` of `x [D, T, N]`.

    Args:
        x: its input.
        w_in: `[M, D]`; like the others, it gets no gradient.
        b_in: `[M]`.
        w_out: `[D, M]`.
        b_out: `[D]`.
        activation: `gelu_new` (a sigmoid is faster than its tanh), `gelu`, `relu` or `silu`.
    """
    constants = w_in.detach(), b_in.detach()[:, None], w_out.detach(), b_out.detach()[:, None]
    kept = torch.is_grad_enabled() and x.requires_grad
    written: Tensor = _Mlp.apply(x.flatten(1), *constants, activation, kept)  # type: ignore[assignment]
    return written.view_as(x)


class _Mlp(Function):
    """Some rows at a time, so that hidden ones do not go through memory; their slopes do, for a gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_in: Tensor,
        b_in: Tensor,
        w_out: Tensor,
        b_out: Tensor,
        activation: str,
        kept: bool,
    ) -> Tensor:
        ctx.save_for_backward(w_in, w_out)
        ctx.slopes = []
        written = torch.empty_like(x)
        for inputs, result in _pieces(len(b_in), x, written):
            active, slope = _activated(torch.addmm(b_in, w_in, inputs), activation, kept)
            torch.addmm(b_out, w_out, active, out=result)
            ctx.slopes.append(slope)
        return written

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        w_in, w_out = ctx.saved_tensors
        by_x = torch.empty_like(grads[0])
        for slope, (grad, result) in zip(ctx.slopes, _pieces(len(w_in), grads[0], by_x)):
            torch.mm(w_in.T, (w_out.T @ grad).mul_(slope), out=result)
        return by_x, *[None] * 6


def _pieces(width: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yields some columns of all, so many that `width` times as many numbers fit into the cache."""
    columns = max(1, fitting(width, tensors[0].shape[1], tensors[0].device))
    return zip(*(tensor.split(columns, 1) for tensor in tensors))


def _activated(hidden: Tensor, activation: str, kept: bool) -> tuple[Tensor, Tensor | None]:
    """Returns what the activation function makes of `hidden`, and its slope there if that is to be kept."""
    if activation == "relu":
        return hidden.relu(), (hidden > 0).to(hidden) if kept else None
    if activation == "gelu":
        return gelu(hidden), torch.ops.aten.gelu_backward(torch.ones_like(hidden), hidden) if kept else None
    if activation == "silu":
        gate = hidden.sigmoid()
        active = gate * hidden
        return active, active.mul(gate).neg_().add_(active).add_(gate) if kept else None
    assert activation == "gelu_new", activation
    gate = torch.addcmul(hidden.new_full((), LINEAR), hidden, hidden, value=CUBIC).mul_(hidden).sigmoid_()
    slope = None
    if kept:
        slope = torch.addcmul(hidden.new_full((), LINEAR), hidden, hidden, value=3 * CUBIC).mul_(hidden)
        slope.addcmul_(slope, gate, value=-1).add_(1).mul_(gate)
    return gate.mul_(hidden), slope
