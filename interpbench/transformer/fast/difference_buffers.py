"""Buffers of a run with patched edges: differences of nodes, inputs of readers, and the gradients of both.

`patch_differences.py` says what they are for.

Shapes: K circuits, W nodes (writers), R readers, D d_model, T positions, B examples, F numbers of one
activation (D × T × B).
"""

import math

import torch
from torch import Tensor

READERS_AT_ONCE = 16
"""The number of readers whose masks get their gradients in one product."""

PIECE = 1_536
"""The largest number of entries of an activation that such a product sums over at once."""


class DifferenceBuffers:
    """The buffers of a run. They are no tensors of the autograd graph, as that would be a reference cycle.

    Args:
        masks: `[K, R, W]`, the factor by which each reader sees each difference.
        patch: `[W', D, T, (K,) B]`, for shape, type and device; W' is the largest number of nodes.
        centred: whether the mean over D is subtracted from values.

    Attributes:
        values: `[1 + W, K, D, T, B]`, the residual stream, then nodes' differences in the order of writing.
        inputs: `[R, K, D, T, B]`, readers' inputs in the order of reading; later, their gradients.
    """

    def __init__(self, masks: Tensor, patch: Tensor, centred: bool):
        self.masks, self.centred = masks, centred
        writers, features, length, *_, examples = patch.shape
        self.values = patch.new_empty(1 + writers, len(masks), features, length, examples)
        self.inputs: Tensor | None = None
        self.writers: list[int] = []
        self.readers: list[int] = []
        self.seen: list[int] = []
        """How many nodes had been written before each reader."""
        self.raw: set[tuple[int, int]] = set()
        """The readers, first and last plus one, whose inputs gradients have not overwritten yet."""
        self.groups: list[tuple[list[int], int]] = []
        """The nodes of each write, and how many readers came before it."""
        self._ahead: dict[int, tuple[int, Tensor]] = {}
        """The first of the readers whose gradients a group has got already, and these, `[K, W', D, T, B]`."""
        self.later: tuple[DifferenceBuffers, Tensor] | None = None
        """The buffers of the kept positions, and the flat indices of these into T × B."""

    def at_positions(self, indices: Tensor) -> "DifferenceBuffers":
        """Returns buffers for the rest of the run with the same nodes at flat `indices [P]` into T × B."""
        writers, _, features = self.values.shape[:3]
        shape = self.values.new_empty(1).expand(writers - 1, features, 1, len(indices))
        later, filled = DifferenceBuffers(self.masks, shape, self.centred), 1 + len(self.writers)
        now = self.values[:filled].flatten(3)
        later.values[:filled] = now.gather(3, indices.expand(*now.shape[:3], -1)).unsqueeze(3)
        later.writers = self.writers.copy()
        self.later = later, indices
        return later

    def fill(self, first: int, own: Tensor, patch: Tensor | None = None) -> None:
        """Sets the values of some nodes.

        Args:
            first: the index into `values` of the first of them.
            own: `[W', D, T, K, B]`, what they write themselves.
            patch: `[W', D, T, (K,) B]`, from which `own` is subtracted; None to set `own` itself.
        """
        filled = self.values[first : first + len(own)]
        if patch is None:
            filled.copy_(own.movedim(-2, 1))
        else:
            patch = patch.unsqueeze(1) if patch.ndim == 4 else patch.movedim(-2, 1)
            torch.sub(patch, own.movedim(-2, 1), out=filled)
        if self.centred:
            filled -= filled.mean(2, keepdim=True)

    def reserve(self, readers: list[int]) -> Tensor:
        """Returns the part `[R', K, D, T, B]` of the buffer of inputs for some more readers."""
        if self.inputs is None:
            self.inputs = self.values.new_empty(self.masks.shape[1], *self.values.shape[1:])
        first = len(self.readers)
        self.readers += readers
        self.seen += [len(self.writers)] * len(readers)
        self.raw.add((first, len(self.readers)))
        return self.inputs[first : len(self.readers)]

    def by_group(self, group: int) -> Tensor:
        """Returns the gradients `[W', D, T, K, B]` of the nodes of one write, from all later readers.

        Writes are asked for from the last to the first. There are few readers between two writes, so the
        gradients from later readers are computed for two writes at once.
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
            later, indices = self.later
            total.flatten(3).index_add_(
                3, indices, torch.bmm(*later._pulled(writers)).view(*total.shape[:3], -1)
            )
        return total.permute(1, 2, 3, 0, 4)

    def _pulled(self, writers: list[int], first: int = 0, last: int | None = None) -> tuple[Tensor, Tensor]:
        """Returns `[K, W', R']` and `[K, R', F]`, whose product is nodes' gradients from some readers."""
        coefficients = 1 - masks_of(self.masks, self.readers[first:last], writers).transpose(1, 2)
        return coefficients, self._gradients(first, last).transpose(0, 1).flatten(2)

    def _gradients(self, first: int = 0, last: int | None = None) -> Tensor:
        """Returns the gradients `[R', K, D, T, B]` of some readers' inputs, 0 for those that got none."""
        if self.inputs is None:
            return self.values[:0]
        for start, stop in self.raw:
            if start >= first:
                self.inputs[start:stop] = 0
        return self.inputs[: len(self.readers)][first:last]

    def by_masks(self) -> Tensor:
        """Returns the gradient `[K, R, W]` of the masks."""
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


def masks_of(masks: Tensor, readers: list[int], writers: list[int]) -> Tensor:
    """Returns the masks of some readers and nodes, as a view if these are consecutive (lists are slow).

    Args:
        masks: `[K, R, W]`.
        readers: indices of readers.
        writers: indices of nodes.
    """
    rows, columns = (
        slice(some[0], some[-1] + 1) if some and some[-1] - some[0] == len(some) - 1 else some
        for some in (readers, writers)
    )
    return masks[:, rows][:, :, columns]
