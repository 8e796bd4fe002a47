"""Taps: activations that are kept in the autograd graph, so that gradients of the logits can be taken there.

Shapes: D d_model, T positions, B examples, N rows, W nodes (writers), R readers.
"""

from collections.abc import Sequence

from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.routes import Replaced
from interpbench.transformer.tensors import ReaderInputs, Residual, SharedRows, WriterOutputs


class Taps(Interventions):
    """Keeps every reader's input and every node's output, to take gradients there.

    Rows are the same B examples at several points between clean and patched activations, those of the first
    point first. The network is run on an embedding that requires a gradient.

    Args:
        delta: `[W, D, T, B]`, patched minus clean outputs; None if all points are clean.
        moved: `[point, W]`, on the CPU: the share of `delta` that is added to what each node writes.
        blocked: a layer whose outputs pass no gradient on; None for no layer.
    """

    def __init__(self, delta: Tensor | None = None, moved: Tensor | None = None, blocked: int | None = None):
        self.delta, self.moved, self.blocked = delta, moved, blocked
        self.moves = [] if moved is None else moved.ne(0).any(0).tolist()

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears what an earlier run has left."""
        self._layers = [node.layer for node in cfg.graph.nodes]
        self.inputs: list[Tensor] = []
        """The inputs of each step's readers, `[len(readers), D, T, N]`, in the order of the graph."""
        self.outputs: list[Tensor] = []
        """The outputs of each step's nodes, `[len(writers), D, T, N]`, in the order of the graph."""

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs moved towards the patch, and keeps them."""
        if self.delta is not None and self.moved is not None and any(self.moves[w] for w in writers):
            chosen = list(writers)
            moved = self.moved[:, chosen].T[:, None, None, :, None].to(self.delta)
            outputs = outputs + (moved * self.delta[chosen].unsqueeze(3)).flatten(3)
        self.outputs.append(outputs)
        return outputs.detach() if self._layers[writers[0]] == self.blocked else outputs

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Returns the same input for each reader, as tensors of their own, and keeps them."""
        own = residual.expand(len(readers), -1, -1, -1)
        self.inputs.append(own)
        return residual[..., :0], own


class WriterTaps(Replaced):
    """Replaces outputs of nodes, and keeps what every node then writes, to take gradients there.

    Gradients reach what it keeps whether the network's weights require gradients or not.
    """

    def begin(self, cfg: TransformerConfig) -> None:
        """Clears what an earlier run has left."""
        self.outputs: list[Tensor] = []
        """The outputs of each step's nodes, `[len(writers), D, T, N]`, in the order of the graph."""

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs with replaced ones in their place, and keeps them."""
        written = super().write(writers, outputs)
        if not written.requires_grad:
            written = written.detach().requires_grad_()
        self.outputs.append(written)
        return written
