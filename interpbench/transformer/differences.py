"""How patches differ from what writers write, in one buffer from which every reader takes its mixture.

Stacking the writers anew for each reader copies every writer once a reader, and its gradient as often. Here
writers fill a buffer in place, a reader's mixture is a product with what is filled so far, and the backward
pass adds up in a second buffer. Autograd sees only the order: each write returns an empty token, which later
writes and reads take, so that a writer's gradient is asked for after all its readers have given theirs.

What readers see is larger by far than what they do with it: 12 inputs of D a layer for 12 projections of E.
So `Mixture.project` goes from masks to normalised projections in one step that keeps one copy of the inputs.

K candidates, W writers, R readers, D d_model, E head width, T positions, B examples, N rows (K × B).
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

SQUARED_AT_ONCE = 16
"""Features squared at once: a copy of all inputs would have to go through memory."""


class Differences:
    """The differences of one run.

    Args:
        candidates: K.
        patch: `[W, D, T, B]`, for shape, type and device; W is how many writers there may be.
    """

    def __init__(self, candidates: int, patch: Tensor):
        self._buffers = _Buffers(patch.new_empty(candidates, *patch.shape))
        self._filled = 0
        self._token = patch.new_empty(0)

    def write(self, patch: Tensor, own: Tensor) -> None:
        """Adds some writers: `patch [W', D, T, B]`, a constant, minus `own [W', D, T, K, B]`."""
        some = slice(self._filled, self._filled + len(own))
        self._filled = some.stop
        self._token: Tensor = _Write.apply(patch, own, self._token, self._buffers, some)  # type: ignore[assignment]

    def mixture(self, residual: Tensor, mask: Tensor, more: Tensor | None) -> "Mixture":
        """Returns what readers see.

        Args:
            residual: `[D, T, N]`: what all of them see.
            mask: `[K, R, W]`: how much each reader sees of each difference that is there.
            more: `[K, R, D, T, B]`, T and B possibly 1: what each reader sees besides; None for nothing.
        """
        return Mixture(residual, mask, more, self._token, self._buffers)


class Mixture:
    """What readers see: the residual stream plus each one's mixture of differences."""

    def __init__(
        self, residual: Tensor, mask: Tensor, more: Tensor | None, token: Tensor, buffers: "_Buffers"
    ):
        self._parts = residual, mask, more, token, buffers
        self._length = residual.shape[1]

    def inputs(self) -> Tensor:
        """Returns what readers see, `[R, D, T, N]`."""
        mixed: Tensor = _Read.apply(*self._parts)  # type: ignore[assignment]
        return mixed.permute(1, 2, 3, 0, 4).flatten(3)

    def project(self, weight: Tensor, bias: Tensor, eps: float | None) -> Tensor:
        """Returns `weight [R, E, D]` times the inputs, plus `bias [R, E]`, as `[R, E, T, N]`.

        Args:
            weight: gets no gradient.
            bias: gets no gradient.
            eps: of the LayerNorm without weights that inputs go through first; None for none.
        """
        if eps is not None:
            weight = weight - weight.mean(2, keepdim=True)  # so that an input's mean does not matter
        projected: Tensor = _Project.apply(*self._parts, weight.detach(), eps)  # type: ignore[assignment]
        count, _, width, _ = projected.shape
        shape = count, len(weight), width, self._length, -1
        own = projected.view(shape) + bias.detach()[:, :, None, None]
        return own.permute(1, 2, 3, 0, 4).flatten(3)


class _Buffers:
    """Values `[K, W, D, T, B]` and their gradients; no tensor of the graph, which would be a cycle."""

    def __init__(self, values: Tensor):
        self.values = values
        self.grads: Tensor | None = None

    def add(self, mask: Tensor, grad: Tensor) -> None:
        """Adds what inputs' gradients `[K, R, F]` give the first writers by `mask [K, R, W']`."""
        count, transposed = mask.shape[2], mask.transpose(1, 2)
        if self.grads is not None:
            self.grads[:, :count].flatten(2).baddbmm_(transposed, grad)
        elif count == self.values.shape[1]:
            self.grads = (transposed @ grad).view_as(self.values)
        else:
            self.grads = torch.zeros_like(self.values)
            self.add(mask, grad)


class _Write(Function):
    @staticmethod
    def forward(
        ctx: Any, patch: Tensor, own: Tensor, token: Tensor, buffers: _Buffers, some: slice
    ) -> Tensor:
        ctx.buffers, ctx.some = buffers, some
        torch.sub(patch.unsqueeze(0), own.permute(3, 0, 1, 2, 4), out=buffers.values[:, some])
        return token.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, Tensor, None, None]:
        gathered: Tensor = ctx.buffers.grads[:, ctx.some]
        own = gathered.neg().permute(1, 2, 3, 0, 4) if ctx.needs_input_grad[1] else None
        gathered.zero_()
        return None, own, grads[0], None, None


def _mixed(residual: Tensor, mask: Tensor, more: Tensor | None, values: Tensor) -> Tensor:
    """Returns inputs `[K, R, D, T, B]` from `values [K, W, D, T, B]`."""
    shape = (*mask.shape[:2], *values.shape[2:])
    base = residual.view(*shape[2:4], shape[0], shape[4]).permute(2, 0, 1, 3).unsqueeze(1)
    if more is not None:
        base = base + more
    base = base.flatten(2).expand(*shape[:2], -1)
    return torch.baddbmm(base, mask, values.flatten(2)).view(shape)


def _unmixed(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Returns gradients of `_mixed`'s first three arguments and of the token, from `[K, R, D, T, B]`."""
    (mask, *_), buffers = ctx.saved_tensors, ctx.buffers
    count, flat = mask.shape[2], grad.flatten(2)
    by_residual = by_mask = by_more = by_token = None
    if ctx.needs_input_grad[0]:
        by_residual = grad.sum(1).permute(1, 2, 0, 3).flatten(2)
    if ctx.needs_input_grad[1]:
        by_mask = flat @ buffers.values[:, :count].flatten(2).transpose(1, 2)
    if ctx.needs_input_grad[2]:
        by_more = grad.sum_to_size(ctx.more)
    if ctx.needs_input_grad[3]:
        buffers.add(mask, flat)
        by_token = grad.new_empty(0)
    return by_residual, by_mask, by_more, by_token


class _Read(Function):
    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, mask: Tensor, more: Tensor | None, token: Tensor, buffers: _Buffers
    ) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.buffers, ctx.more = buffers, None if more is None else more.shape
        return _mixed(residual, mask, more, buffers.values[:, : mask.shape[2]])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *_unmixed(ctx, grads[0]), None


class _Project(Function):
    """Inputs x to y = W (x - mean) / scale, `[K, R, E, T × B]`, where W's rows have mean 0 already."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        mask: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: _Buffers,
        weight: Tensor,
        eps: float | None,
    ) -> Tensor:
        x = _mixed(residual, mask, more, buffers.values[:, : mask.shape[2]])
        scale = None
        if eps is not None:
            x -= x.mean(2, keepdim=True)
            squares = [part.square().sum(2, keepdim=True) for part in x.split(SQUARED_AT_ONCE, 2)]
            scale = torch.stack(squares).sum(0).div_(x.shape[2]).add_(eps).rsqrt_()
        weights = weight.expand(len(mask), *weight.shape).flatten(0, 1)
        y = (weights @ x.flatten(3).flatten(0, 1)).unflatten(0, mask.shape[:2])
        if scale is not None:
            y *= scale.flatten(3)
        ctx.save_for_backward(mask, weights, x, y, scale)
        ctx.buffers, ctx.more = buffers, None if more is None else more.shape
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        _, weights, x, y, scale = ctx.saved_tensors
        (grad,) = grads
        scaled = grad if scale is None else grad * scale.flatten(3)
        by_x = (weights.transpose(1, 2) @ scaled.flatten(0, 1)).view_as(x)
        if scale is not None:
            along = (scaled * y).sum(2, keepdim=True).view_as(scale).mul_(scale)
            by_x.addcmul_(x, along, value=-1 / x.shape[2])
        return *_unmixed(ctx, by_x), None, None, None
