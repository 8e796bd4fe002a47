"""Patched edges: patched minus own activations of all nodes in one buffer, which readers' inputs are sums of.

Stacking the nodes anew for each reader copies every node once a reader, and its gradient as often. Here nodes
fill one buffer in place and readers' inputs another; an input is a product of masks and the differences that
are there so far. In the backward pass inputs are overwritten by their gradients, a node's gradient is a
product with those of its readers, and the masks' gradient is one product of the two buffers. Autograd knows
only the order: filling a buffer returns an empty token, which later writes and reads take, so that a node's
gradient is asked for after those of all its readers, and the masks' last.

Inputs are far larger than what is projected from them: 12 of size D in a layer for 12 projections of size E.
So `Mixture.project` goes from masks to normalised projections in one step.

Shapes: K circuits, W nodes (writers), R readers, D d_model, E d_head, T positions, B examples, N rows (K ×
B), F numbers of one activation (D × T × B).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from interpbench.transformer.fast.difference_buffers import DifferenceBuffers, masks_of


class Differences:
    """The differences between patched and own activations in one run.

    Args:
        masks: `[K, R, W]`, the factor by which each reader sees each difference: 1 for a patched edge.
        patch: `[W', D, T, (K,) B]`, for shape, type and device; W' is the largest number of nodes.
        centred: whether every reader ignores the mean over D, as LayerNorm does; it is subtracted then.
    """

    def __init__(self, masks: Tensor, patch: Tensor, centred: bool):
        self._buffers = DifferenceBuffers(masks.detach(), patch, centred)
        self._token: Tensor = _Start.apply(masks, self._buffers)  # type: ignore[assignment]

    def write(self, writers: list[int], patch: Tensor, own: Tensor) -> None:
        """Adds the differences of some nodes.

        Args:
            writers: their indices.
            patch: `[W', D, T, (K,) B]`, the patched values, which get no gradient.
            own: `[W', D, T, K, B]`, what they write themselves.
        """
        self._token = _Write.apply(patch, own, self._token, self._buffers, writers)  # type: ignore[assignment]

    def keep_positions(self, indices: Tensor) -> None:
        """Keeps only some positions, flat `indices [P]` into T × B; from now on T = 1 and B = P."""
        self._buffers = self._buffers.at_positions(indices)

    def read(self, readers: list[int], residual: Tensor, more: Tensor | None) -> "Mixture":
        """Returns the inputs of some readers: the residual stream plus masked differences.

        Args:
            readers: their indices.
            residual: the residual stream `[D, T, N]`, which is the same for all of them.
            more: `[K, R, D, T, B]`, T and B possibly 1, what is added for each reader; None for nothing.
        """
        return Mixture(readers, residual, more, self._token, self._buffers)


class Mixture:
    """The inputs of some readers, computed when asked for: the residual stream plus masked differences.

    Args:
        readers: their indices.
        residual: the residual stream `[D, T, N]`.
        more: `[K, R, D, T, B]`, what is added for each reader, or None.
        token: the empty tensor by which autograd knows what has been written before.
        buffers: the differences so far.
    """

    def __init__(
        self,
        readers: list[int],
        residual: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: DifferenceBuffers,
    ):
        if more is not None and buffers.centred:
            more = more - more.mean(2, keepdim=True)
        self._parts = residual.detach(), more, token, buffers, readers
        self._kept = torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in (more, token)
        )

    def inputs(self, eps: float | None = None) -> Tensor:
        """Returns the inputs `[R, D, T, N]`, with mean 0 over D if every reader ignores it.

        They are normalised by a LayerNorm without weights with this `eps`, or not if it is None.
        """
        inputs: Tensor = _Inputs.apply(*self._parts, eps, self._kept)  # type: ignore[assignment]
        return inputs.permute(0, 2, 3, 1, 4).flatten(3)

    def copied(self) -> Tensor:
        """Returns a copy of the inputs for modules that save them: gradients overwrite the buffer's."""
        return self.inputs().clone()

    def project(self, weight: Tensor, bias: Tensor, eps: float | None, rows_last: bool = True) -> Tensor:
        """Returns linear maps of the normalised inputs, `[R, E, T, N]`.

        Args:
            weight: the maps `[R, E, D]`, which get no gradient.
            bias: the biases `[R, E]`, which get no gradient.
            eps: that of a LayerNorm without weights, which is applied first; None for no norm.
            rows_last: whether rows are last in memory; else the order is `[R, T, N, E]`.
        """
        if eps is not None:
            weight = weight - weight.mean(2, keepdim=True)  # so that an input's gradient has mean 0
        constants = weight.detach(), bias.detach(), eps, rows_last, self._kept
        projected: Tensor = _Project.apply(*self._parts, *constants)  # type: ignore[assignment]
        if rows_last:  # [R, K, E, T, B], else [R, K, T, B, E]
            return projected.permute(0, 2, 3, 1, 4).flatten(3)
        return projected.transpose(1, 2).flatten(2, 3).permute(0, 3, 1, 2)


class _Start(Function):
    """The step before all others: its backward pass, which is last, gives the masks their gradient."""

    @staticmethod
    def forward(ctx: Any, masks: Tensor, buffers: DifferenceBuffers) -> Tensor:
        ctx.buffers = buffers
        return masks.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.buffers.by_masks(), None


class _Write(Function):
    @staticmethod
    def forward(
        ctx: Any, patch: Tensor, own: Tensor, token: Tensor, buffers: DifferenceBuffers, writers: list[int]
    ) -> Tensor:
        ctx.buffers, ctx.group = buffers, len(buffers.groups)
        buffers.fill(1 + len(buffers.writers), own, patch)
        buffers.groups.append((writers, len(buffers.readers)))
        buffers.writers += writers
        return token.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, Tensor, None, None]:
        own = ctx.buffers.by_group(ctx.group) if ctx.needs_input_grad[1] else None
        return None, own, grads[0], None, None


def _squares(x: Tensor) -> Tensor:
    """Returns sums of squares over axis 2, without a copy of all inputs."""
    first, *others = x.split(4, 2)
    total = first.square()
    for part in others:
        if part.shape == total.shape:
            total.addcmul_(part, part)
        else:
            total[:, :, : part.shape[2]].addcmul_(part, part)
    return total.sum(2, keepdim=True)


def _products(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """Returns sums of a × b over an axis, which is kept; without a copy of all products if it is the last."""
    if axis == a.ndim - 1:
        return (a.unsqueeze(-2) @ b.unsqueeze(-1)).squeeze(-1)
    return (a * b).sum(axis, keepdim=True)


def _mixed(
    ctx: Any,
    residual: Tensor,
    more: Tensor | None,
    buffers: DifferenceBuffers,
    readers: list[int],
    eps: float | None,
    kept: bool,
) -> tuple[Tensor, Tensor | None]:
    """Returns inputs `[R, K, D, T × B]` and LayerNorm's factors for them; notes in `ctx` where they are."""
    mask = masks_of(buffers.masks, readers, buffers.writers)
    mask = torch.cat([mask.new_ones(*mask.shape[:2], 1), mask], 2)
    buffers.fill(0, residual.unflatten(2, (len(mask), -1))[None])
    ctx.buffers, ctx.more, ctx.first = buffers, None if more is None else more.shape, len(buffers.readers)
    ctx.last = ctx.first + len(readers)
    if kept:
        x = buffers.reserve(readers)
    else:
        x = buffers.values.new_empty(len(readers), *buffers.values.shape[1:])
    values = buffers.values[: mask.shape[2]].transpose(0, 1).flatten(2)
    x.transpose(0, 1).flatten(2).baddbmm_(mask, values, beta=0)
    if more is not None:
        x += more.transpose(0, 1)
    x = x.flatten(3)
    return x, None if eps is None else _squares(x).div_(x.shape[2]).add_(eps).rsqrt_()


def _unmixed(ctx: Any) -> Tensor:
    """Returns the inputs `[R, K, D, T, B]`, which their gradients are to overwrite."""
    if (ctx.first, ctx.last) not in ctx.buffers.raw:
        raise RuntimeError("a run with masks can be differentiated only once; run it again")
    ctx.buffers.raw.remove((ctx.first, ctx.last))
    return ctx.buffers.inputs[ctx.first : ctx.last]


def _others(ctx: Any, by_inputs: Tensor) -> tuple[None, Tensor | None, Tensor, None, None]:
    """Returns the gradients of `residual` and what follows, given those of inputs `[R, K, D, T, B]`."""
    by_more = by_inputs.transpose(0, 1).sum_to_size(ctx.more) if ctx.needs_input_grad[1] else None
    return None, by_more, by_inputs.new_empty(0), None, None


class _Inputs(Function):
    """The inputs `[R, K, D, T, B]`, normalised unless `eps` is None."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: DifferenceBuffers,
        readers: list[int],
        eps: float | None,
        kept: bool,
    ) -> Tensor:
        x, scale = _mixed(ctx, residual, more, buffers, readers, eps, kept)
        if scale is not None:
            x *= scale
        ctx.save_for_backward(scale)
        return x.view(len(readers), *buffers.values.shape[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = ctx.saved_tensors
        inputs = _unmixed(ctx)
        x, by_x = inputs.flatten(3), grads[0].flatten(3)
        if scale is None:
            x.copy_(by_x)
        else:
            x *= (by_x * x).sum(2, keepdim=True).div_(-x.shape[2])
            x.add_(by_x - by_x.mean(2, keepdim=True)).mul_(scale)
        return *_others(ctx, inputs), None, None


class _Project(Function):
    """Projections y = W (x - mean) / scale + b of inputs x, where W's rows have mean 0 already."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: DifferenceBuffers,
        readers: list[int],
        weight: Tensor,
        bias: Tensor,
        eps: float | None,
        rows_last: bool,
        kept: bool,
    ) -> Tensor:
        x, scale = _mixed(ctx, residual, more, buffers, readers, eps, kept)
        weight = weight.unsqueeze(1)
        y = weight @ x if rows_last else x.transpose(2, 3) @ weight.transpose(2, 3)
        if scale is not None and not rows_last:
            scale = scale.view(*y.shape[:3], 1)
        ctx.rows_last = rows_last
        ctx.save_for_backward(weight, y, scale)
        own = bias[:, None, :, None] if rows_last else bias[:, None, None]
        y = y + own if scale is None else torch.addcmul(own, y, scale)
        return y.unflatten(3 if rows_last else 2, buffers.values.shape[3:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weight, y, scale = ctx.saved_tensors
        inputs = _unmixed(ctx)
        x = inputs.flatten(3)
        axis, by_y = (2, grads[0].flatten(3)) if ctx.rows_last else (3, grads[0].flatten(2, 3))
        if scale is not None:
            by_y = by_y * scale
            along = _products(by_y, y, axis).mul_(scale).mul_(scale).div_(-x.shape[2])
            x *= along.view(*x.shape[:2], 1, -1)
        by_y = by_y.flatten(0, 1) if ctx.rows_last else by_y.flatten(0, 1).transpose(1, 2)
        transposed = weight.transpose(2, 3).expand(-1, x.shape[1], -1, -1).flatten(0, 1)
        x.flatten(0, 1).baddbmm_(transposed, by_y, beta=0 if scale is None else 1)
        return *_others(ctx, inputs), *[None] * 5
