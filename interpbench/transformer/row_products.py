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


class QueryKeyProducts(Function):
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
        return QueryKeyProducts.forward(_Nothing, grad, v), mix(pattern.transpose(1, 2), grad)


class Store:
    """Values `[W, F, N]` that are filled some writers at a time, and their gradients; no tensor of the graph.

    Stacking the writers anew for each reader would copy each of them once a reader. Autograd sees the order
    alone, by empty tokens, as in `fast/patch_differences.py`: what fills the store returns one, which later
    calls take.
    """

    def __init__(self, values: Tensor):
        self.values = values
        self.grads: Tensor | None = None

    def add(self, mask: Tensor, grad: Tensor) -> None:
        """Adds what gradients `[R, F, N]` give the first writers by `mask [R, W', N]`."""
        if self.grads is None:
            self.grads = torch.zeros_like(self.values)
        total = self.grads[: mask.shape[1]]
        for weight, one in zip(mask.unsqueeze(2).unbind(), grad.unbind()):
            total.addcmul_(weight, one)


class Blend(Function):
    """`base [F, N]` plus every reader's own mixture, by `mask [R, W, N]`, of the writers stored so far.

    Returns `[R, F, N]`. Masks get no gradient.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, mask: Tensor, token: Tensor, store: Store) -> Tensor:
        """Contracts W."""
        ctx.save_for_backward(mask)
        ctx.store = store
        total = base.expand(len(mask), *base.shape).contiguous()
        for weight, value in zip(mask.unsqueeze(2).unbind(1), store.values.unbind()):
            total.addcmul_(weight, value)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """Contracts R."""
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        ctx.store.add(mask, grad)
        return grad.sum(0), None, grad.new_empty(0), None


class Swap(Function):
    """Between worlds of one batch: rows take values from world 0, and the last world is compared with it.

    `values [K, D, T, world, B]` to the values after the swaps, world 0's own values `[K, D, T, B]` if they
    are wanted, and a token. The difference of world 0 from the last goes to `some` writers of the store, if
    there is one. `swaps` are (world, shift, mask `[K, 1, 1, B]` of 0 and 1): where the mask is 1, row b takes
    row b + shift (cyclically) of world 0. One copy forward and one backward, where slicing would fill a
    tensor of zeros for every slice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        token: Tensor,
        swaps: list[tuple[int, int, Tensor]],
        wanted: bool,
        store: Store | None,
        some: slice,
        picks: list[tuple[int, Tensor]],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Swaps."""
        ctx.swaps, ctx.wanted, ctx.store, ctx.some, ctx.picks = swaps, wanted, store, some, picks
        source, swapped = values[..., 0, :], values.clone()
        for world, shift, mask in swaps:
            swapped[..., world, :].lerp_(source.roll(-shift, -1) if shift else source, mask)
        if store is not None:
            for shift, mask in picks:
                source = source.lerp(source.roll(-shift, -1), mask)
            torch.sub(source, swapped[..., -1, :], out=store.values[some].view(source.shape))
        none = token.new_empty(0)
        return swapped, values[..., 0, :].clone() if wanted else none, token.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        """Sends each swapped row's gradient to where its value came from."""
        grad, by_source, by_token = grads
        result = grad.clone()
        if ctx.wanted:
            result[..., 0, :] += by_source
        if ctx.store is not None and ctx.store.grads is not None:
            difference = ctx.store.grads[ctx.some].view(result[..., 0, :].shape)
            result[..., 0, :] += difference
            result[..., -1, :] -= difference
            for shift, mask in ctx.picks:
                moved = difference * mask
                result[..., 0, :] += moved.roll(shift, -1) - moved
            difference.zero_()
        for world, shift, mask in ctx.swaps:
            moved = grad[..., world, :] * mask
            result[..., world, :] -= moved
            result[..., 0, :] += moved.roll(shift, -1) if shift else moved
        return result, by_token, None, None, None, None, None


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
    result: Tensor = QueryKeyProducts.apply(q, k)  # type: ignore[assignment]
    return result


def attend_values(pattern: Tensor, v: Tensor) -> Tensor:
    """Returns averaged values `[H, E, Q, N]`, differentiable."""
    result: Tensor = Mix.apply(pattern, v)  # type: ignore[assignment]
    return result


def normalise(x: Tensor, eps: float) -> Tensor:
    """Returns `x [..., D, T, N]` with mean 0 and variance 1 over D, differentiable."""
    result: Tensor = Normalise.apply(x, eps)  # type: ignore[assignment]
    return result


class Stack:
    """What the last of several worlds' readers mix: how all writers' values differ from world 0's.

    Args:
        writers: how many there will be.
        like: `[D, T, B]`, one of them.
    """

    def __init__(self, writers: int, like: Tensor):
        self._store = Store(like.new_empty(writers, like.shape[:-1].numel(), like.shape[-1]))
        self._token, self._filled = like.new_empty(0), 0

    def swap(
        self,
        values: Tensor,
        swaps: list[tuple[int, int, Tensor]],
        wanted: bool = False,
        picks: Sequence[tuple[int, Tensor]] = (),
    ) -> tuple[Tensor, Tensor]:
        """Swaps some writers' values as `swap` does, and keeps the differences."""
        some = slice(self._filled, self._filled + len(values))
        self._filled = some.stop
        swapped, source, token = Swap.apply(
            values, self._token, swaps, wanted, self._store, some, list(picks)
        )  # type: ignore[misc]
        self._token: Tensor = token
        return swapped, source

    def blend(self, base: Tensor, mask: Tensor) -> Tensor:
        """Returns `[R, D, T, B]`: `base [D, T, B]` plus each reader's mixture, by `mask [R, W, B]`."""
        some = mask[:, : self._filled]
        result: Tensor = Blend.apply(base.flatten(0, 1), some, self._token, self._store)  # type: ignore[assignment]
        return result.view(len(mask), *base.shape)


def swap(values: Tensor, swaps: list[tuple[int, int, Tensor]], wanted: bool = False) -> tuple[Tensor, Tensor]:
    """Returns swapped values and world 0's own, if they are wanted; see `Swap`; differentiable."""
    swapped, source, _ = Swap.apply(values, values.new_empty(0), swaps, wanted, None, slice(0), [])  # type: ignore[misc]
    return swapped, source
