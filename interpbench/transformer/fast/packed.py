"""Packed positions: a run computes only those positions of each example that can change the wanted logits.

Positions after the wanted one are not seen by it, and positions before any patch stay as in the clean run.

Shapes: T positions, B examples, F computed positions of all examples, M earlier positions that are not
computed, K circuits, H heads, E d_head.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

ALIGNED = 64
"""The number of computed positions is rounded up to a multiple of this, as other products are slower."""


class Packed:
    """The positions that a run of a causal network computes, each as a row of its own.

    Positions after the wanted one are left out. Earlier positions that are not computed keep the keys and
    values of the clean run.

    Args:
        live: `[T, B]` bool, the positions that have to be computed, the wanted ones among them; a few more
            may be computed.
        only: `[B]`, the position of each example whose logits are wanted.
        keys_and_values: the clean keys and values `[2, H, E, T, B]` of each layer.

    Attributes:
        length: the number of positions T.
        examples: the number of examples B.
        count: the number of computed positions F, in the order of `[T, B]`.
        only: `[B]`, the position of each example whose logits are wanted.
        others: the clean keys and values `[2, H, M, E]` of each layer at earlier positions not computed.
        rows: `[B]`, the index of each example's wanted position among the computed ones.
    """

    def __init__(self, live: Tensor, only: Tensor, keys_and_values: Iterable[Tensor]):
        self.length, self.examples = live.shape
        order = torch.argsort(~live.flatten(), stable=True)  # of [T, B]
        whole = ALIGNED * -(-int(live.sum()) // ALIGNED)
        self.count, self.only = min(whole, len(order)), only
        computed, rest = order[: self.count].sort().values, order[self.count :]
        earlier = rest[rest // self.examples < only[rest % self.examples]]
        self.others = [some.flatten(3)[..., earlier].transpose(2, 3) for some in keys_and_values]
        self._places, self._others, self._rest = map(self._in_example, (computed, earlier, rest))
        self._source = torch.zeros_like(order)
        self._source[self._places] = torch.arange(self.count, device=order.device)
        self._computed = computed
        self.rows = self._source[torch.arange(self.examples, device=order.device) * self.length + only]
        self._many: dict[tuple[int, bool], Tensor] = {}

    def _in_example(self, places: Tensor) -> Tensor:
        """Returns flat indices into `[B, T]` for flat indices into `[T, B]`."""
        return places % self.examples * self.length + places // self.examples

    def pack(self, values: Tensor) -> Tensor:
        """Returns the computed positions `[..., 1, F]` of `values [..., T, B]`."""
        return values.flatten(-2)[..., self._computed].unsqueeze(-2)

    def spread(self, rows: Tensor, others: Tensor | None) -> Tensor:
        """Returns all positions `[H × K × B, T, E]`: computed `rows [H, K × F, E]`, and `others [H, M, E]`.

        If `others` is None, positions that are not computed are 0. Positions after the wanted one may hold
        anything: the causal mask hides them.
        """
        heads, _, width = rows.shape
        every = self._select(rows, self._source, self.count)
        if others is None:
            every.index_fill_(1, self._rest, 0)
        elif len(self._others):
            every = every.unflatten(0, (heads, -1))
            every.index_copy_(2, self._others, others.unsqueeze(1).expand(-1, every.shape[1], -1, -1))
        return every.view(-1, self.length, width)

    def gather(self, spread: Tensor, heads: int) -> Tensor:
        """Returns the computed positions `[H, K × F, E]` of `spread [H × K × B, T, E]`."""
        width = spread.shape[-1]
        return self._select(spread, self._places, len(self._source)).view(heads, -1, width)

    def _select(self, rows: Tensor, chosen: Tensor, size: int) -> Tensor:
        """Returns the `chosen` ones of every `size` vectors of `rows [..., E]`, as `[groups, chosen, E]`."""
        flat = rows.reshape(-1, rows.shape[-1])
        groups = len(flat) // size
        key = groups, chosen is self._source
        if key not in self._many:
            firsts = torch.arange(0, len(flat), size, device=chosen.device)
            self._many[key] = (firsts[:, None] + chosen).flatten()
        return flat.index_select(0, self._many[key]).view(groups, -1, rows.shape[-1])
