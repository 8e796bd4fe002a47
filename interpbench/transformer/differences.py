"""How patches differ from what writers write, in one buffer from which every reader takes its mixture.

Stacking the writers anew for each reader copies every writer once a reader, and its gradient as often. Here
writers fill a buffer in place, a reader's mixture is a product with what is filled so far, and the backward
pass adds up in a second buffer. Autograd sees only the order: each write returns an empty token, which later
writes and reads take, so that a writer's gradient is asked for after all its readers have given theirs.

K candidates, W writers, R readers, D d_model, T positions, B examples.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


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

    def read(self, mask: Tensor) -> Tensor:
        """Mixes all that are there by `mask [K, R, W]`, as `[R, D, T, K, B]`."""
        mixed: Tensor = _Read.apply(mask, self._token, self._buffers)  # type: ignore[assignment]
        return mixed.permute(1, 2, 3, 0, 4)


class _Buffers:
    """Values `[K, W, D, T, B]` and their gradients; no tensor of the graph, which would be a cycle."""

    def __init__(self, values: Tensor):
        self.values = values
        self.grads: Tensor | None = None


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


class _Read(Function):
    @staticmethod
    def forward(ctx: Any, mask: Tensor, token: Tensor, buffers: _Buffers) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.buffers = buffers
        values = buffers.values[:, : mask.shape[2]]
        return (mask @ values.flatten(2)).unflatten(2, values.shape[2:])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (mask,), buffers = ctx.saved_tensors, ctx.buffers
        count, grad = mask.shape[2], grads[0].flatten(2)
        by_mask = by_token = None
        if ctx.needs_input_grad[0]:
            by_mask = grad @ buffers.values[:, :count].flatten(2).transpose(1, 2)
        if ctx.needs_input_grad[1]:
            if buffers.grads is None:
                buffers.grads = torch.zeros_like(buffers.values)
            buffers.grads[:, :count].flatten(2).baddbmm_(mask.transpose(1, 2), grad)
            by_token = grad.new_empty(0)
        return by_mask, by_token, None
