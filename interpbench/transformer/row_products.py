"""Products of many small matrices, one for each row, as sums of products of vectors over all rows.

PyTorch's batched products treat every row as a matrix of its own; with matrices of 5×3 that costs more in
calls than in arithmetic. Here a contraction over a small axis is a loop over that axis, each step one
fused multiply-add over all rows, and the backward passes are the same loops.

Shapes: D d_model, H heads, E d_head, T positions, Q positions of queries, K positions of keys, N rows, B
examples of a batch, W nodes (writers), R readers, F = D × T.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class _QueryKeyProducts(Function):
    """Products of queries and keys over E: `[H, E, Q, N] × [H, E, K, N] → [H, Q, K, N]`."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor) -> Tensor:
        """Returns the products, summed over E."""
        ctx.save_for_backward(q, k)
        return _sum_of_products(q.unsqueeze(3).unbind(1), k.unsqueeze(2).unbind(1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradient of `q`, summed over K, and that of `k`, summed over Q."""
        (grad,) = grads
        q, k = ctx.saved_tensors
        return mix(grad, k), mix(grad.transpose(1, 2), q)


class _Mix(Function):
    """Values averaged by an attention pattern: `[H, Q, K, N] × [H, E, K, N] → [H, E, Q, N]`."""

    @staticmethod
    def forward(ctx: Any, pattern: Tensor, v: Tensor) -> Tensor:
        """Returns the products of pattern and values, summed over K."""
        ctx.save_for_backward(pattern, v)
        return mix(pattern, v)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the gradient of the pattern, summed over E, and that of `v`, summed over Q."""
        (grad,) = grads
        pattern, v = ctx.saved_tensors
        return _QueryKeyProducts.forward(_Nothing, grad, v), mix(pattern.transpose(1, 2), grad)


class _Store:
    """A buffer `[W, F, B]` of nodes' values, filled step by step, and a buffer of their gradients.

    Stacking the nodes' values anew for each reader would copy each of them once a reader. The buffers are no
    tensors of the autograd graph. Autograd knows only the order of the steps, by empty tokens, as in
    `fast/patch_differences.py`: filling the buffer returns one, which later calls take.
    """

    def __init__(self, values: Tensor):
        self.values = values
        self.grads: Tensor | None = None

    def add(self, mask: Tensor, grad: Tensor) -> None:
        """Adds readers' gradients `[R, F, B]`, times `mask [R, W', B]`, to those of the first W' nodes."""
        if self.grads is None:
            self.grads = torch.zeros_like(self.values)
        total = self.grads[: mask.shape[1]]
        for weight, one in zip(mask.unsqueeze(2).unbind(), grad.unbind()):
            total.addcmul_(weight, one)


class _Blend(Function):
    """The inputs of several readers: `base [F, B]` plus the stored values, weighted by `mask [R, W, B]`.

    The result is `[R, F, B]`. Masks get no gradient.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, mask: Tensor, token: Tensor, store: _Store) -> Tensor:
        """Returns the inputs, summed over W."""
        ctx.save_for_backward(mask)
        ctx.store = store
        total = base.expand(len(mask), *base.shape).contiguous()
        for weight, value in zip(mask.unsqueeze(2).unbind(1), store.values.unbind()):
            total.addcmul_(weight, value)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """Returns the gradient of `base`, summed over R; those of stored values go to the store."""
        (mask,) = ctx.saved_tensors
        (grad,) = grads
        ctx.store.add(mask, grad)
        return grad.sum(0), None, grad.new_empty(0), None


class _Swap(Function):
    """Interchange interventions in a batch of worlds: rows take activations from world 0, the source.

    Maps K nodes' `values [K, D, T, world, B]` to the values after the swaps, world 0's own values
    `[K, D, T, B]` if they are `wanted`, and a token. `swaps` are (world, shift, mask): where the mask
    `[K, 1, 1, B]` is 1, row b of the world takes row b + shift (cyclically) of world 0. If there is a store,
    its rows `some` get the values of world 0 minus those of the last world, where `picks`, as (shift, mask),
    say which row of world 0 that is; if `some` has S rows for each node, row s gets those of world 0 in the
    row s further on. This copies values once forward and once backward, where slicing would fill a tensor of
    zeros for every slice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        token: Tensor,
        swaps: list[tuple[int, int, Tensor]],
        wanted: bool,
        store: _Store | None,
        some: slice,
        picks: list[tuple[int, Tensor]],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the values after the swaps, world 0's own values or an empty tensor, and a token."""
        ctx.swaps, ctx.wanted, ctx.store, ctx.some, ctx.picks = swaps, wanted, store, some, picks
        source, swapped = values[..., 0, :], values.clone()
        for world, shift, mask in swaps:
            swapped[..., world, :].lerp_(source.roll(-shift, -1) if shift else source, mask)
        if store is not None:
            for shift, mask in picks:
                source = source.lerp(source.roll(-shift, -1), mask)
            kept = store.values[some].view(len(values), -1, *source.shape[1:])
            for shift, difference in enumerate(kept.unbind(1)):
                torch.sub(source.roll(-shift, -1) if shift else source, swapped[..., -1, :], out=difference)
        none = token.new_empty(0)
        return swapped, values[..., 0, :].clone() if wanted else none, token.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None, None, None]:
        """Returns the gradient of `values`: a swapped row's gradient goes to the row it was taken from."""
        grad, by_source, by_token = grads
        result = grad.clone()
        if ctx.wanted:
            result[..., 0, :] += by_source
        if ctx.store is not None and ctx.store.grads is not None:
            of_source = result[..., 0, :]
            kept = ctx.store.grads[ctx.some].view(len(result), -1, *of_source.shape[1:])
            for shift, difference in enumerate(kept.unbind(1)):
                of_source += difference.roll(shift, -1) if shift else difference
                result[..., -1, :] -= difference
                for further, mask in ctx.picks:
                    moved = difference * mask
                    of_source += moved.roll(further, -1) - moved
                difference.zero_()
        for world, shift, mask in ctx.swaps:
            moved = grad[..., world, :] * mask
            result[..., world, :] -= moved
            result[..., 0, :] += moved.roll(shift, -1) if shift else moved
        return result, by_token, None, None, None, None, None


class _Normalise(Function):
    """LayerNorm of `[..., D, T, N]` over D without weights, in three passes over memory each way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        """Returns `x` with mean 0 and variance 1."""
        centred = x - x.mean(-3, keepdim=True)
        scale = (centred * centred).mean(-3, keepdim=True).add_(eps).rsqrt_()
        normal = centred.mul_(scale)
        ctx.save_for_backward(normal, scale)
        return normal

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Returns the gradient of `x`: `grads` without their mean and without the part along the result."""
        (grad,) = grads
        normal, scale = ctx.saved_tensors
        parallel = (grad * normal).mean(-3, keepdim=True)
        result = torch.addcmul(grad, normal, parallel, value=-1)
        return result.sub_(grad.mean(-3, keepdim=True)).mul_(scale), None


class _Nothing:
    """A context that saves nothing, for a forward pass that is reused inside a backward pass."""

    @staticmethod
    def save_for_backward(*tensors: Tensor) -> None:
        """Saves nothing."""


def mix(weights: Tensor, values: Tensor) -> Tensor:
    """Returns values `[H, E, K, N]` summed over K with weights `[H, Q, K, N]`: `[H, E, Q, N]`."""
    return _sum_of_products(weights.unsqueeze(1).unbind(3), values.unsqueeze(2).unbind(3))


def _sum_of_products(first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
    """Returns the sum of the products of pairs, which are broadcast, by one fused multiply-add a pair."""
    total = first[0] * second[0]
    for a, b in zip(first[1:], second[1:]):
        total.addcmul_(a, b)
    return total


def scores(q: Tensor, k: Tensor) -> Tensor:
    """Returns products `[H, Q, K, N]` of queries `[H, E, Q, N]` and keys `[H, E, K, N]`, differentiably."""
    result: Tensor = _QueryKeyProducts.apply(q, k)  # type: ignore[assignment]
    return result


def attend_values(pattern: Tensor, v: Tensor) -> Tensor:
    """Returns values `[H, E, K, N]` averaged by a pattern `[H, Q, K, N]`, `[H, E, Q, N]`, differentiably."""
    result: Tensor = _Mix.apply(pattern, v)  # type: ignore[assignment]
    return result


def normalise(x: Tensor, eps: float) -> Tensor:
    """Returns `x [..., D, T, N]` with mean 0 and variance 1 over D, differentiably."""
    result: Tensor = _Normalise.apply(x, eps)  # type: ignore[assignment]
    return result


class Stack:
    """The differences between source and last world of all nodes, which the last world's readers mix.

    Args:
        writers: the number of nodes.
        like: `[D, T, B]`, one node's values in one world, for shape, type and device.
        sources: the number S of differences of each node: from a row of the source, and from the rows 1 to
            S - 1 further on.
    """

    def __init__(self, writers: int, like: Tensor, sources: int = 1):
        self.sources, kept = sources, writers * sources
        self._store = _Store(like.new_empty(kept, like.shape[:-1].numel(), like.shape[-1]))
        self._token, self._filled = like.new_empty(0), 0

    def swap(
        self,
        values: Tensor,
        swaps: list[tuple[int, int, Tensor]],
        wanted: bool = False,
        picks: Sequence[tuple[int, Tensor]] = (),
    ) -> tuple[Tensor, Tensor]:
        """Swaps values of the next nodes, as `swap` does, and keeps their differences.

        Args:
            values: `[K, D, T, world, B]`, what K nodes write.
            swaps: (world, shift, mask `[K, 1, 1, B]`) for each kind of swap.
            wanted: whether the source's own values are returned.
            picks: (shift, mask `[K, 1, 1, B]`): where the mask is 1, the last world's source is the row
                `shift` further on.

        Returns:
            The values after the swaps, and the source's own `[K, D, T, B]`, empty unless wanted.
        """
        some = slice(self._filled, self._filled + len(values) * self.sources)
        self._filled = some.stop
        swapped, source, token = _Swap.apply(
            values, self._token, swaps, wanted, self._store, some, list(picks)
        )  # type: ignore[misc]
        self._token: Tensor = token
        return swapped, source

    def blend(self, base: Tensor, mask: Tensor) -> Tensor:
        """Returns inputs `[R, D, T, B]`: `base [D, T, B]` plus all differences times `mask [R, W S, B]`."""
        some = mask[:, : self._filled]
        result: Tensor = _Blend.apply(base.flatten(0, 1), some, self._token, self._store)  # type: ignore[assignment]
        return result.view(len(mask), *base.shape)


def swap(values: Tensor, swaps: list[tuple[int, int, Tensor]], wanted: bool = False) -> tuple[Tensor, Tensor]:
    """Applies interchange interventions between the worlds of a batch, differentiably.

    Args:
        values: `[K, D, T, world, B]`, what K nodes write; world 0 is the source.
        swaps: (world, shift, mask `[K, 1, 1, B]`): where the mask is 1, row b of that world takes row
            b + shift (cyclically) of world 0.
        wanted: whether the source's own values are returned.

    Returns:
        The values after the swaps, and the source's own `[K, D, T, B]`, empty unless wanted.
    """
    swapped, source, _ = _Swap.apply(values, values.new_empty(0), swaps, wanted, None, slice(0), [])  # type: ignore[misc]
    return swapped, source
