"""Linear probes from what aligned nodes write to their variables, which are trained along with the network.

The loss of the output gives a weak gradient for variables several layers before it. That of a probe tells the
variable's value at every position of every row. Probes are discarded after training, and certificates do not
use them.

Shapes: D d_model, T positions with BOS, P = T - 1, N rows.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from interpbench.alignment.alignment import Alignment


class Probes(nn.Module):
    """Linear probes with biases, one for each aligned variable: to logits of its values, or to its number.

    None has a logit, too.

    Args:
        alignment: the nodes of the variables.
        d_model: the width of the residual stream.
        seed: the seed of the initial weights.
        names: the variables that are probed; None for all aligned ones.

    Attributes:
        nodes: the index of each variable's node, by the variable's name.
    """

    def __init__(self, alignment: Alignment, d_model: int, seed: int, names: Collection[str] | None = None):
        super().__init__()
        place = alignment.graph.node_index
        self.nodes = {
            name: place[node]
            for node, carried in alignment.aligned_nodes.items()
            for name in carried
            if names is None or name in names
        }
        generator = torch.Generator().manual_seed(seed)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for name in self.nodes:
            values = alignment.task.causal_model.variables[name].values
            classes = 1 if values is None else len(values) + 1
            weight = torch.empty(classes, d_model).normal_(0, d_model**-0.5, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(classes, 1)))

    def read(self, written: Mapping[int, Tensor]) -> dict[str, Tensor]:
        """Returns what is read of each variable, logits of its values (None last) or its number, `[V, P, N]`.

        Args:
            written: what nodes write, `[D, T, N]`, by index; position 0 is BOS.
        """
        read: dict[str, Tensor] = {}
        for (name, node), weight, bias in zip(self.nodes.items(), self.weights, self.biases):
            here = written[node][:, 1:]
            read[name] = torch.addmm(bias, weight, here.flatten(1)).view(-1, *here.shape[1:])
        return read

    def losses(self, written: Mapping[int, Tensor], values: Mapping[str, Tensor]) -> Tensor:
        """Returns the loss of each variable.

        It is the squared error of a number; of a categorical variable, half the mean cross-entropy where it
        is None plus half the mean cross-entropy elsewhere.

        Args:
            written: what nodes write, `[D, T, N]`, by index; position 0 is BOS.
            values: the values of variables, `[P, world, batch]` with N = world × batch, by name.
        """
        losses: list[Tensor] = []
        for name, logits in self.read(written).items():
            wanted, read = values[name].flatten(), logits.flatten(1)
            if wanted.is_floating_point():
                there = ~wanted.isnan()
                errors = torch.where(there, read[0] - wanted.nan_to_num(), 0).square()
                losses.append(errors.sum() / there.sum().clamp(min=1))
                continue
            none, some = wanted < 0, wanted >= 0
            target = torch.where(some, wanted, len(read) - 1).long()
            errors = functional.cross_entropy(read[None], target[None], reduction="none")[0]
            shares = none / none.sum().clamp(min=1) + some / some.sum().clamp(min=1)
            losses.append((errors * shares).sum() / 2)
        return torch.stack(losses)
