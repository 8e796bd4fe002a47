"""Secrecy: the node of a share writes its share and nothing else of the program.

A variable that exists as the sum of two shares (`tasks.regimes.shares`) is not hidden by that alone: swaps
are about what readers take, and the node of a share may carry the whole variable beside it. Here what the
node writes may vary with the values of its own variables only: what is left within samples of equal values
is penalised, as a share of all its variance.

Shapes: D d_model, T positions with BOS, P = T - 1, N rows, C combinations of values of a node's variables.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from interpbench.alignment.alignment import Alignment

LEAST = 1e-6
"""The share of a variance below which it is nothing."""
KEPT = 0.03
"""The loss up to which nodes of shares tell nothing to linear probes: some millionths of the
variance are left (`python -m benchmarks.shares`)."""


class Secrecy:
    """The loss that nodes of shares write nothing else.

    Args:
        alignment: the nodes of the program's variables. Variables of which `Task.secrets` are numbers have
            too many values to be told apart, and are left out.

    Attributes:
        names: the variables of these nodes.
    """

    def __init__(self, alignment: Alignment):
        variables, place = alignment.task.causal_model.variables, alignment.graph.node_index
        self.sizes: dict[int, dict[str, int]] = {}
        for node, names in alignment.aligned_nodes.items():
            sizes = {name: len(variables[name].values or ()) for name in names}
            if any(name in alignment.task.secrets for name in names) and all(sizes.values()):
                self.sizes[place[node]] = sizes
        self.names = [name for sizes in self.sizes.values() for name in sizes]

    def loss(self, written: Mapping[int, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Returns the mean over nodes of `within` and of its logarithm, from 0 below `LEAST` to 1.

        A probe still reads what is a thousandth of the variance, so that decades count; where nearly all is
        left, the logarithm hardly falls with it, and the share itself does.

        Args:
            written: what nodes write, `[D, T, N]`, by index; position 0 is BOS.
            values: the values of variables, `[P, world, batch]` with N = world × batch, by name.
        """
        found: list[Tensor] = []
        for node, sizes in self.sizes.items():
            mine = [values[name].flatten().long() for name in sizes]
            there = torch.stack(mine).amin(0) >= 0  # None is less
            joint = torch.zeros_like(mine[0])
            for each, size in zip(mine, sizes.values()):
                joint = joint * size + each.clamp(min=0)
            found.append(within(written[node][:, 1:].flatten(1), joint, math.prod(sizes.values()), there))
        left = torch.stack(found)
        return (left + torch.log1p(left / LEAST) / math.log1p(1 / LEAST)).mean() / 2


def within(written: Tensor, values: Tensor, count: int, there: Tensor) -> Tensor:
    """Returns the share of a variance that is within samples of equal values.

    Samples without a value count for nothing: what the node writes there could be as large as it likes, and
    the rest would be small beside it.

    Args:
        written: what a node writes in M samples, `[D, M]`.
        values: their values, from 0 to `count` - 1, `[M]`.
        count: the number C of possible values.
        there: whether a sample has a value, bool `[M]`.
    """
    weight = there.to(written.dtype)
    of_value = functional.one_hot(values, count) * weight[:, None]
    means = written @ of_value / of_value.sum(0).clamp(min=1)
    mean = written @ weight[:, None] / weight.sum().clamp(min=1)
    total = ((written - mean).square() * weight).sum()
    return ((written - means @ of_value.T).square() * weight).sum() / total.clamp(min=1e-12)
