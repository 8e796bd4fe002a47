"""Products whose last axis is the row: small contractions as accumulated multiplications of long vectors.

PyTorch's batched products treat every row as a matrix of its own; with matrices of 5×3 that costs more in
calls than in arithmetic. Here a contraction over a small axis is a loop over that axis, each step one
fused multiply-add over all rows; the backward passes are the same loops.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class Scores(Function):
    """`[H, E, Q, N] × [H, E, K, N] → [H, Q, K, N]`: products of queries and keys."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        """Contracts E."""
        ctx.save_for_backward(q, k)
        return _sum_of_products(q.unsqueeze(3).unbind(1), k.unsqueeze(2).unbind(1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Contracts K for q and Q for k."""
        (grad,) = grads
        q, k = ctx.saved_tensors
        return mix(grad, k), mix(grad.transpose(1, 2), q)


class Mix(Function):
    """`[H, Q, K, N] × [H, E, K, N] → [H, E, Q, N]`: values averaged by an attention pattern."""

    @staticmethod
    def forward(ctx: Any, pattern: Tensor, v: Tensor) -> Tensor:
        """Contracts K."""
        ctx.save_for_backward(pattern, v)
        return mix(pattern, v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Contracts E for the pattern and Q for v."""
        (grad,) = grads
        pattern, v = ctx.saved_tensors
        return Scores.forward(_Nothing, grad, v), mix(pattern.transpose(1, 2), grad)


class Blend(Function):
    """`[R, W, N] × [W, F, N] → [R, F, N]`: every reader's own mixture of writers; masks get no gradient."""

    @staticmethod
    def forward(ctx: Any, mask: Tensor, stack: Tensor) -> Tensor:
        """Contracts W."""
        ctx.save_for_backward(mask)
        return _sum_of_products(mask.unsqueeze(2).unbind(1), stack.unbind())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        """Contracts R."""
        (mask,) = ctx.saved_tensors
        return None, Blend.forward(_Nothing, mask.transpose(0, 1), grads[0])


class Swap(Function):
    """Between worlds of one batch: rows take values from world 0, and the last world is compared with it.

    `values [K, D, T, world, B]` to the values after the swaps and the difference `[K, D, T, B]` between
    world 0 and the last. `swaps` are (world, shift, mask `[K, 1, 1, B]` of 0 and 1): where the mask is 1, row
    b takes row b + shift (cyclically) of world 0. One copy forward and one backward, where slicing would
    fill a tensor of zeros for every slice.
    """

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, swaps: list[tuple[int, int, Tensor]], compare: bool
    ) -> tuple[Tensor, Tensor]:
        """Swaps."""
        ctx.swaps, ctx.compare = swaps, compare
        source, swapped = values[..., 0, :], values.clone()
        for world, shift, mask in swaps:
            swapped[..., world, :].lerp_(source.roll(-shift, -1) if shift else source, mask)
        return swapped, source - swapped[..., -1, :] if compare else swapped.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Sends each swapped row's gradient to where its value came from."""
        grad, difference = grads
        result = grad.clone()
        if ctx.compare:
            result[..., 0, :] += difference
            result[..., -1, :] -= difference
        for world, shift, mask in ctx.swaps:
            moved = grad[..., world, :] * mask
            result[..., world, :] -= moved
            result[..., 0, :] += moved.roll(shift, -1) if shift else moved
        return result, None, None


class Normalise(Function):
    """`[..., D, T, N]` to mean 0 and variance 1 over D: three passes over memory each way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        """Normalises."""
        centred = x - x.mean(-3, keepdim=True)
        scale = (centred * centred).mean(-3, keepdim=True).add_(eps).rsqrt_()
        normal = centred.mul_(scale)
        ctx.save_for_backward(normal, scale)
        return normal

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Takes out of the gradient its mean and what is parallel to the result."""
        (grad,) = grads
        normal, scale = ctx.saved_tensors
        parallel = (grad * normal).mean(-3, keepdim=True)
        result = torch.addcmul(grad, normal, parallel, value=-1)
        return result.sub_(grad.mean(-3, keepdim=True)).mul_(scale), None


class _Nothing:
    """Stands in for a context where a forward pass is reused inside a backward pass."""

    @staticmethod
    def save_for_backward(*tensors: Tensor) -> None:
        """Keeps nothing."""


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """Contracts the middle axis: `[H, Q, K, N] × [H, E, K, N] → [H, E, Q, N]`."""
    return _sum_of_products(weights.unsqueeze(1).unbind(3), values.unsqueeze(2).unbind(3))


def _sum_of_products(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Adds up products of broadcast pairs, one fused multiply-add a pair."""
    total = first[0] * second[0]
    for a, b in zip(first[1:], second[1:]):
        total.addcmul_(a, b)
    return total


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Returns query-key products `[H, Q, K, N]`, differentiable."""
    result: Tensor = Scores.apply(q, k)  # type: ignore[assignment]
    return result


def attend_values(pattern: Tensor, v: Tensor) -> Tensor:
    """Returns averaged values `[H, E, Q, N]`, differentiable."""
    result: Tensor = Mix.apply(pattern, v)  # type: ignore[assignment]
    return result


def blend(mask: Tensor, stack: Tensor) -> Tensor:
    """Returns `[R, F, N]`, differentiable in `stack [W, F, N]`."""
    result: Tensor = Blend.apply(mask, stack)  # type: ignore[assignment]
    return result


def normalise(x: Tensor, eps: float) -> Tensor:
    """Returns `x [..., D, T, N]` with mean 0 and variance 1 over D, differentiable."""
    result: Tensor = Normalise.apply(x, eps)  # type: ignore[assignment]
    return result


def swap(values: Tensor, swaps: list[tuple[int, int, Tensor]], compare: bool = True) -> tuple[Tensor, Tensor]:
    """Returns swapped values and, if asked for, the difference of world 0 from the last; differentiable."""
    result: tuple[Tensor, Tensor] = Swap.apply(values, swaps, compare)  # type: ignore[assignment]
    return result


def keep_memory() -> None:
    """Lets glibc keep large blocks instead of returning them: each new one would be page-faulted anew."""
    import ctypes

    try:
        libc = ctypes.CDLL(None)
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(parameter, 1 << 30)
    except (OSError, AttributeError):
        return


keep_memory()
torch.set_flush_denormal(True)
