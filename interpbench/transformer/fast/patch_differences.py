"""How patches differ from what writers write, in one buffer from which every reader takes its mixture.

Stacking the writers anew for each reader copies every writer once a reader, and its gradient as often. Here
writers fill one buffer in place and readers' inputs another; an input is a product with the writers that are
there so far. In the backward pass inputs give way to their gradients, a writer's gradient is a product with
those of its readers, and the masks' is one product of the two buffers. Autograd sees only the order: what
fills a buffer returns an empty token, which later writes and reads take, so that a writer's gradient is asked
for after all its readers have given theirs, and the masks' last.

What readers see is larger by far than what they do with it: 12 inputs of D a layer for 12 projections of E.
So `Mixture.project` goes from masks to normalised projections in one step.

K candidates, W writers, R readers, D d_model, E width of a projection, T positions, B examples, N rows
(K × B), F numbers of one activation (D × T × B).
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

READERS_AT_ONCE = 16
"""Whose masks get their gradients at once, illegal edges included."""

PIECE = 1_536
"""Of a reader and of a writer, how many numbers are multiplied at once for that, at most."""


class Differences:
    """The differences of one run, and what readers see of them.

    Args:
        masks: `[K, R, W]`: how much each reader sees of each difference.
        patch: `[W', D, T, (K,) B]`, for shape, type and device; W' is how many writers there may be.
        centred: whether every reader ignores the mean over D, as LayerNorm does; it is left out then.
    """

    def __init__(self, masks: Tensor, patch: Tensor, centred: bool):
        self._buffers = _Buffers(masks.detach(), patch, centred)
        self._token: Tensor = _Start.apply(masks, self._buffers)  # type: ignore[assignment]

    def write(self, writers: list[int], patch: Tensor, own: Tensor) -> None:
        """Adds some writers: `patch [W', D, T, (K,) B]`, a constant, minus `own [W', D, T, K, B]`."""
        self._token = _Write.apply(patch, own, self._token, self._buffers, writers)  # type: ignore[assignment]

    def narrow(self, places: Tensor) -> None:
        """Goes on with what there is at some `places [P]` of T × B, as one position of P examples."""
        self._buffers = self._buffers.narrowed(places)

    def read(self, readers: list[int], residual: Tensor, more: Tensor | None) -> "Mixture":
        """Returns what readers see.

        Args:
            readers: which.
            residual: `[D, T, N]`: what all of them see: the sum of all writers so far, and constants.
            more: `[K, R, D, T, B]`, T and B possibly 1: what each reader sees besides; None for nothing.
        """
        return Mixture(readers, residual, more, self._token, self._buffers)


class Mixture:
    """What readers see: the residual stream plus each one's mixture of differences."""

    def __init__(
        self, readers: list[int], residual: Tensor, more: Tensor | None, token: Tensor, buffers: "_Buffers"
    ):
        if more is not None and buffers.centred:
            more = more - more.mean(2, keepdim=True)
        self._parts = residual.detach(), more, token, buffers, readers
        self._kept = torch.is_grad_enabled() and any(
            tensor is not None and tensor.requires_grad for tensor in (more, token)
        )

    def inputs(self, eps: float | None = None) -> Tensor:
        """Returns what readers see, `[R, D, T, N]`, with mean 0 over D if the differences are centred.

        Args:
            eps: of a LayerNorm without weights that they go through; None for none.
        """
        inputs: Tensor = _Inputs.apply(*self._parts, eps, self._kept)  # type: ignore[assignment]
        return inputs.permute(0, 2, 3, 1, 4).flatten(3)

    def copied(self) -> Tensor:
        """Returns what readers see, for parts that keep it for a gradient: the buffer's gives way."""
        return self.inputs().clone()

    def project(self, weight: Tensor, bias: Tensor, eps: float | None, rows_last: bool = True) -> Tensor:
        """Returns `weight [R, E, D]` times the inputs, plus `bias [R, E]`, as `[R, E, T, N]`.

        Args:
            weight: gets no gradient.
            bias: gets no gradient.
            eps: of the LayerNorm without weights that inputs go through first; None for none.
            rows_last: the order in memory; else it is `[R, T, N, E]`.
        """
        if eps is not None:
            weight = weight - weight.mean(2, keepdim=True)  # so that an input's gradient has mean 0
        constants = weight.detach(), bias.detach(), eps, rows_last, self._kept
        projected: Tensor = _Project.apply(*self._parts, *constants)  # type: ignore[assignment]
        if rows_last:  # [R, K, E, T, B], else [R, K, T, B, E]
            return projected.permute(0, 2, 3, 1, 4).flatten(3)
        return projected.transpose(1, 2).flatten(2, 3).permute(0, 3, 1, 2)


class _Buffers:
    """What the run has so far; no tensor of the graph, which would be a cycle.

    Attributes:
        values: `[1 + W, K, D, T, B]`: the residual stream, then differences of writers in the order in which
            they came.
        inputs: `[R, K, D, T, B]`: of readers in their order; in the backward pass, their gradients.
    """

    def __init__(self, masks: Tensor, patch: Tensor, centred: bool):
        self.masks, self.centred = masks, centred
        writers, features, length, *_, examples = patch.shape
        self.values = patch.new_empty(1 + writers, len(masks), features, length, examples)
        self.inputs: Tensor | None = None
        self.writers: list[int] = []
        self.readers: list[int] = []
        self.seen: list[int] = []
        """How many writers each of the readers saw."""
        self.raw: set[tuple[int, int]] = set()
        """Readers, from and to, whose inputs have not given way to gradients."""
        self.groups: list[tuple[list[int], int]] = []
        """Writers that came together, and how many readers had come before them."""
        self._ahead: dict[int, tuple[int, Tensor]] = {}
        """Of some groups, what all readers from one on give them, `[K, W', D, T, B]`."""
        self.later: tuple[_Buffers, Tensor] | None = None
        """What goes on with some places, and these places of T × B."""

    def narrowed(self, places: Tensor) -> "_Buffers":
        """Returns buffers with the same writers, at `places [P]` of T × B, into which the run goes on."""
        writers, _, features = self.values.shape[:3]
        shape = self.values.new_empty(1).expand(writers - 1, features, 1, len(places))
        later, filled = _Buffers(self.masks, shape, self.centred), 1 + len(self.writers)
        now = self.values[:filled].flatten(3)
        later.values[:filled] = now.gather(3, places.expand(*now.shape[:3], -1)).unsqueeze(3)
        later.writers = self.writers.copy()
        self.later = later, places
        return later

    def fill(self, first: int, own: Tensor, patch: Tensor | None = None) -> None:
        """Sets values from one on to `own [W', D, T, K, B]`, or what `patch [W', D, T, (K,) B]` has more."""
        filled = self.values[first : first + len(own)]
        if patch is None:
            filled.copy_(own.movedim(-2, 1))
        else:
            patch = patch.unsqueeze(1) if patch.ndim == 4 else patch.movedim(-2, 1)
            torch.sub(patch, own.movedim(-2, 1), out=filled)
        if self.centred:
            filled -= filled.mean(2, keepdim=True)

    def reserve(self, readers: list[int]) -> Tensor:
        """Returns where inputs `[R', K, D, T, B]` of more readers go, to be kept."""
        if self.inputs is None:
            self.inputs = self.values.new_empty(self.masks.shape[1], *self.values.shape[1:])
        first = len(self.readers)
        self.readers += readers
        self.seen += [len(self.writers)] * len(readers)
        self.raw.add((first, len(self.readers)))
        return self.inputs[first : len(self.readers)]

    def by_group(self, group: int) -> Tensor:
        """Returns the gradients `[W', D, T, K, B]` of what was written together, by all readers since then.

        The groups are asked for from the last to the first. Readers between two writes are few, so what the
        others give is found for two groups at once.
        """
        writers, first = self.groups[group]
        if group in self._ahead:
            until, total = self._ahead.pop(group)
            total.flatten(2).baddbmm_(*self._pulled(writers, first, until))
        elif group:
            before, _ = self.groups[group - 1]
            both = torch.bmm(*self._pulled([*before, *writers], first)).unflatten(2, self.values.shape[2:])
            earlier, total = both.split([len(before), len(writers)], 1)
            self._ahead[group - 1] = first, earlier
        else:
            total = torch.bmm(*self._pulled(writers, first)).unflatten(2, self.values.shape[2:])
        if self.later is not None:
            later, places = self.later
            total.flatten(3).index_add_(
                3, places, torch.bmm(*later._pulled(writers)).view(*total.shape[:3], -1)
            )
        return total.permute(1, 2, 3, 0, 4)

    def _pulled(self, writers: list[int], first: int = 0, last: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns `[K, W', R']` and `[K, R', F]`, whose product writers get from some readers."""
        coefficients = 1 - _at(self.masks, self.readers[first:last], writers).transpose(1, 2)
        return coefficients, self._gradients(first, last).transpose(0, 1).flatten(2)

    def _gradients(self, first: int = 0, last: int | None = None) -> Tensor:
        """Returns inputs' gradients `[R', K, D, T, B]` from one reader on; 0 for what nobody asked for."""
        if self.inputs is None:
            return self.values[:0]
        for start, stop in self.raw:
            if start >= first:
                self.inputs[start:stop] = 0
        return self.inputs[: len(self.readers)][first:last]

    def by_masks(self) -> Tensor:
        """Returns the masks' gradient `[K, R, W]`."""
        result = torch.zeros_like(self.masks) if self.later is None else self.later[0].by_masks()
        count, features, *rest = self.values.shape[1:]
        each = math.prod(rest)
        pieces = next(n for n in range(-(-each // PIECE), each + 1) if each % n == 0)
        shape = count * features * pieces, each // pieces
        by_inputs = self._gradients().flatten(1).unflatten(1, shape).transpose(0, 1)
        values = self.values[1:].flatten(1).unflatten(1, shape).permute(1, 2, 0)
        for first in range(0, len(self.readers), READERS_AT_ONCE):
            some = slice(first, first + READERS_AT_ONCE)
            readers, seen = self.readers[some], self.seen[some]
            if not any(seen):
                continue
            products = by_inputs[:, some] @ values[..., : max(seen)]  # one for each piece
            total = products.unflatten(0, (count, -1)).sum(1)
            places = torch.arange(max(seen), device=total.device)
            total *= places < torch.tensor(seen, device=total.device)[:, None]
            rows = torch.tensor(readers, device=total.device)[:, None]
            result[:, rows, torch.tensor(self.writers[: max(seen)], device=total.device)] = total
        return result


def _at(masks: Tensor, readers: list[int], writers: list[int]) -> Tensor:
    """Returns some rows and columns, a view if they are next to each other: lists cost more than the rest."""
    rows, columns = (
        slice(some[0], some[-1] + 1) if some and some[-1] - some[0] == len(some) - 1 else some
        for some in (readers, writers)
    )
    return masks[:, rows][:, :, columns]


class _Start(Function):
    """Gives the masks their gradient when all readers have theirs."""

    @staticmethod
    def forward(ctx: Any, masks: Tensor, buffers: _Buffers) -> Tensor:
        ctx.buffers = buffers
        return masks.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.buffers.by_masks(), None


class _Write(Function):
    @staticmethod
    def forward(
        ctx: Any, patch: Tensor, own: Tensor, token: Tensor, buffers: _Buffers, writers: list[int]
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
    """Sums squares over axis 2; a copy of all inputs would have to go through memory."""
    first, *others = x.split(4, 2)
    total = first.square()
    for part in others:
        if part.shape == total.shape:
            total.addcmul_(part, part)
        else:
            total[:, :, : part.shape[2]].addcmul_(part, part)
    return total.sum(2, keepdim=True)


def _products(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """Sums a × b over an axis, which is kept; without a copy of all products if it is the last."""
    if axis == a.ndim - 1:
        return (a.unsqueeze(-2) @ b.unsqueeze(-1)).squeeze(-1)
    return (a * b).sum(axis, keepdim=True)


def _mixed(
    ctx: Any,
    residual: Tensor,
    more: Tensor | None,
    buffers: _Buffers,
    readers: list[int],
    eps: float | None,
    kept: bool,
) -> tuple[Tensor, Tensor | None]:
    """Returns inputs `[R, K, D, T × B]` and what LayerNorm multiplies them by, and notes where they are."""
    mask = _at(buffers.masks, readers, buffers.writers)
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
    """Returns the inputs `[R, K, D, T, B]`, which are to give way to their gradients."""
    if (ctx.first, ctx.last) not in ctx.buffers.raw:
        raise RuntimeError("the gradients of a run with masks can be asked for once only")
    ctx.buffers.raw.remove((ctx.first, ctx.last))
    return ctx.buffers.inputs[ctx.first : ctx.last]


def _others(ctx: Any, by_inputs: Tensor) -> tuple[None, Tensor | None, Tensor, None, None]:
    """Returns what `residual` and so on get, from inputs' gradients `[R, K, D, T, B]`."""
    by_more = by_inputs.transpose(0, 1).sum_to_size(ctx.more) if ctx.needs_input_grad[1] else None
    return None, by_more, by_inputs.new_empty(0), None, None


class _Inputs(Function):
    """Inputs, normalised unless `eps` is None, `[R, K, D, T, B]`."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: _Buffers,
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
    """Inputs x to y = W (x - mean) / scale + b, where W's rows have mean 0 already."""

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        more: Tensor | None,
        token: Tensor,
        buffers: _Buffers,
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
