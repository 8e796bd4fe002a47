"""Unembeddings of the values that a network in training has to give besides its output.

They read the same final residual stream as the network's own unembedding, and start and are trained like it.
They are discarded after training.
"""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from interpbench.causal.model import CausalModel
from interpbench.core import seeds
from interpbench.training.losses import position_losses
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer


class Readouts(nn.Module):
    """An unembedding for each of a causal model's `ends` but its output.

    Args:
        causal_model: the causal model.
        cfg: the configuration of the network.
        seed: the seed of the network's initial weights.
    """

    def __init__(self, causal_model: CausalModel, cfg: TransformerConfig, seed: int):
        super().__init__()
        self.names = causal_model.ends[1:]
        self.unembeds = nn.ModuleList()
        for name in self.names:
            values = causal_model.variables[name].values
            own = replace(cfg, d_out=1 if values is None else len(values))
            self.unembeds.append(Transformer(own, seeds.derive(seed, "readout", name)).unembed)

    def losses(
        self, stream: Tensor, targets: Mapping[str, Tensor], weights: Mapping[str, Tensor]
    ) -> list[Tensor]:
        """Returns the weighted loss of each readout, `[P, N]` at P positions without BOS.

        Args:
            stream: the normalised final residual stream, `[D, T, N]`.
            targets: class codes or numbers, `[P, world, batch]` with N = world × batch, by name.
            weights: the weight of each position's loss, `[P, world, batch]`, by name.
        """
        return [
            position_losses(unembed(stream), targets[name].flatten(1)) * weights[name].flatten(1)
            for name, unembed in zip(self.names, self.unembeds)
        ]
