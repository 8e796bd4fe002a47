"""Linear probes: maps from what aligned nodes write to the values of their variables, trained along.

The output alone says little about a variable three layers before it. A probe says at every position, and
in every world, what the program's variable is there; it is thrown away after training, and no certificate
knows of it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from interpbench.alignment.alignment import Alignment


class Probes(nn.Module):
    """One affine map a variable: to logits of its values and of None, or to its number."""

    def __init__(self, alignment: Alignment, d_model: int, seed: int):
        super().__init__()
        place = alignment.graph.node_index
        self.nodes = {name: place[node] for node, names in alignment.aligned_nodes.items() for name in names}
        generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for name in self.nodes:
            values = alignment.task.causal_model.variables[name].values
            classes = 1 if values is None else len(values) + 1
            weight = torch.empty(classes, d_model).normal_(0, d_model**-0.5, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(classes, 1)))

    def losses(self, written: Mapping[int, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Returns the variables' losses: squared error, or cross-entropy half on None and half on the rest.

        Args:
            written: writer to its outputs `[D, T, N]`, position 0 being BOS.
            values: variable to its values `[P, world, batch]`, P = T - 1, N = world × batch.
        """
        losses: list[Tensor] = []
        for (name, node), weight, bias in zip(self.nodes.items(), self.weights, self.biases):
            wanted = values[name].flatten()
            read = torch.addmm(bias, weight, written[node][:, 1:].flatten(1))  # [classes, P·N]
            if wanted.is_floating_point():
                there = ~wanted.isnan()
                errors = torch.where(there, read[0] - wanted.nan_to_num(), 0).square()
                losses.append(errors.sum() / there.sum().clamp(min=1))
                continue
            none, some = wanted < 0, wanted >= 0
            target = torch.where(some, wanted, len(weight) - 1).long()
            errors = functional.cross_entropy(read[None], target[None], reduction="none")[0]
            shares = none / none.sum().clamp(min=1) + some / some.sum().clamp(min=1)
            losses.append((errors * shares).sum() / 2)
        return torch.stack(losses)
