"""Attention and MLP of trained networks, whose weights get no gradient, in pieces that fit into the cache.

Shapes: D d_model, H heads, E d_head, M d_mlp, T positions, Q positions of queries, K positions of keys, N
rows.
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
"""The coefficients of `gelu_new`, which is x · sigmoid(LINEAR x + CUBIC x³)."""

CACHED = 1 << 18
"""The number of floats that are worked on at once on a CPU: half of a core's cache."""


def fitting(each: int, count: int, device: torch.device) -> int:
    """Returns how many pieces of work to do at once, so that they fit into the cache; at least one.

    Args:
        each: how many numbers one piece takes.
        count: how many pieces there are.
        device: the device, all of whose pieces are done at once if it is no CPU.
    """
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
    """Returns what heads write, `[H, D, Q, N]`, of queries, keys and values with features last in memory.

    Args:
        projected: queries, keys and values `[3, H, E, T, N]`; or queries `[1, H, E, Q, N]`, then keys and
            values `[2, H, E, T, N]`.
        output: the output maps `[H, D, E]`, which get no gradient.
        causal: whether a query sees only keys up to its own position.
        only: `[N]`, the position of each row's query if it has only one; None for all positions.
        packed: which positions are computed, if not all: those of keys and values, and without `only` those
            of queries.
        others: keys and values `[2, H, M, E]` at the M earlier positions that are not computed.
    """
    constants = output.detach(), causal, only, packed, others
    written: Tensor = _AttendAndWrite.apply(*constants, *projected)  # type: ignore[assignment]
    return written


class _AttendAndWrite(Function):
    """Attention by batched products, a few heads at a time, so that their patterns stay in the cache."""

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
    """Returns `one [H, E, T, N]` as `[H × N, T, E]`; positions not computed get `others [H, M, E]`, or 0."""
    if packed is None:
        return one.permute(0, 3, 2, 1).flatten(0, 1)
    return packed.spread(one[:, :, 0].transpose(1, 2), others)


def _by_position(values: Tensor, packed: Packed | None, heads: int) -> Tensor:
    """Returns `values [H × N, T, E]` as `[H, T × N, E]`, without positions that are not computed."""
    if packed is not None:
        return packed.gather(values, heads)
    return values.unflatten(0, (heads, -1)).transpose(1, 2).flatten(1, 2)


def mlp(x: Tensor, w_in: Tensor, b_in: Tensor, w_out: Tensor, b_out: Tensor, activation: str) -> Tensor:
    """Returns an MLP's output `[D, T, N]`; its weights get no gradient.

    Args:
        x: its input `[D, T, N]`.
        w_in: the input weights `[M, D]`.
        b_in: the input biases `[M]`.
        w_out: the output weights `[D, M]`.
        b_out: the output biases `[D]`.
        activation: `gelu_new` (by a sigmoid, which is faster than its tanh), `gelu`, `relu` or `silu`.
    """
    constants = w_in.detach(), b_in.detach()[:, None], w_out.detach(), b_out.detach()[:, None]
    kept = torch.is_grad_enabled() and x.requires_grad
    written: Tensor = _Mlp.apply(x.flatten(1), *constants, activation, kept)  # type: ignore[assignment]
    return written.view_as(x)


class _Mlp(Function):
    """An MLP on some columns at a time, so that hidden units stay in the cache; their slopes are kept."""

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
    """Yields the same columns of all tensors, as many as fit into the cache at `width` numbers each."""
    columns = max(1, fitting(width, tensors[0].shape[1], tensors[0].device))
    return zip(*(tensor.split(columns, 1) for tensor in tensors))


def _activated(hidden: Tensor, activation: str, kept: bool) -> tuple[Tensor, Tensor | None]:
    """Returns `hidden` after the activation function, and the function's slope there if `kept`, else None."""
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
