"""Positions that can matter, packed: what comes after the wanted position, or before any patch, is not run.

Shapes as in `model.py`.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

ALIGNED = 64
"""Rows come in multiples of this where they are packed: products of others are slower."""


class Packed:
    """A run that computes some positions of each example of a causal network, in one row each.

    What comes after the position whose logits are wanted is nowhere seen. What comes before and is not
    computed stays as it is: its keys and values come from a clean run.

    F computed positions, in the order of `[T, B]`, M earlier ones, B examples of T positions.

    Args:
        live: `[T, B]`: which positions are computed; the wanted ones are among them. Some more may be.
        only: `[B]`: the wanted positions.
        keys_and_values: for each layer, clean `[2, H, E, T, B]`.

    Attributes:
        length: T.
        examples: B.
        count: F.
        only: as above.
        others: for each layer, keys and values `[2, H, M, E]`.
        rows: `[B]`: where wanted positions are among those that are computed.
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
        """Maps places in `[T, B]` to those in `[B, T]`."""
        return places % self.examples * self.length + places // self.examples

    def pack(self, values: Tensor) -> Tensor:
        """Maps `[..., T, B]` to `[..., 1, F]`."""
        return values.flatten(-2)[..., self._computed].unsqueeze(-2)

    def spread(self, rows: Tensor, others: Tensor | None) -> Tensor:
        """Maps `[H, K × F, E]` and `[H, M, E]`, or 0 for all that is not computed, to `[H × K × B, T, E]`."""
        heads, _, width = rows.shape
        every = self._select(rows, self._source, self.count)
        if others is None:
            every.index_fill_(1, self._rest, 0)
        elif len(self._others):
            every = every.unflatten(0, (heads, -1))
            every.index_copy_(2, self._others, others.unsqueeze(1).expand(-1, every.shape[1], -1, -1))
        return every.view(-1, self.length, width)

    def gather(self, spread: Tensor, heads: int) -> Tensor:
        """Maps `[H × K × B, T, E]` to `[H, K × F, E]`."""
        width = spread.shape[-1]
        return self._select(spread, self._places, len(self._source)).view(heads, -1, width)

    def _select(self, rows: Tensor, chosen: Tensor, size: int) -> Tensor:
        """Selects of every `size` rows, of E numbers each, some: `[..., E]` to `[-1, chosen, E]`."""
        flat = rows.reshape(-1, rows.shape[-1])
        groups = len(flat) // size
        key = groups, chosen is self._source
        if key not in self._many:
            firsts = torch.arange(0, len(flat), size, device=chosen.device)
            self._many[key] = (firsts[:, None] + chosen).flatten()
        return flat.index_select(0, self._many[key]).view(groups, -1, rows.shape[-1])
