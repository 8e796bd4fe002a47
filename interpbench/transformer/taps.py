"""Taps: activations that are kept, connected to the logits, to take gradients there.

Shapes as in `model.py`; B examples of a batch.
"""

from collections.abc import Sequence

from torch import Tensor

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.interventions import Interventions
from interpbench.transformer.routes import Replaced


class Taps(Interventions):
    """Keeps every reader's input and every writer's output, to take gradients there.

    Rows are several points for the same B examples, point-major. A point can move some writers' outputs
    towards the patch. The network is run on an embedding that requires a gradient.

    Args:
        delta: `[W, D, T, B]`: patch minus clean; None if nothing moves.
        moved: `[point, W]`, on the CPU: how much of `delta` is added to what each writer writes.
        blocked: a layer whose outputs pass no gradient on, or None.
    """

    def __init__(self, delta: Tensor | None = None, moved: Tensor | None = None, blocked: int | None = None):
        self.delta, self.moved, self.blocked = delta, moved, blocked
        self.moves = [] if moved is None else moved.ne(0).any(0).tolist()

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self._layers = [node.layer for node in cfg.graph.nodes]
        self.inputs: list[Tensor] = []
        """`[some readers, D, T, N]`, in the readers' order."""
        self.outputs: list[Tensor] = []
        """`[some writers, D, T, N]`, in the writers' order."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Moves and keeps the outputs."""
        if self.delta is not None and self.moved is not None and any(self.moves[w] for w in writers):
            chosen = list(writers)
            moved = self.moved[:, chosen].T[:, None, None, :, None].to(self.delta)
            outputs = outputs + (moved * self.delta[chosen].unsqueeze(3)).flatten(3)
        self.outputs.append(outputs)
        return outputs.detach() if self._layers[writers[0]] == self.blocked else outputs

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gives each reader an input of its own, and keeps it."""
        own = residual.expand(len(readers), -1, -1, -1)
        self.inputs.append(own)
        return residual[..., :0], own


class WriterTaps(Replaced):
    """Replaces writers, and keeps what every writer then writes, to take gradients there.

    What it keeps is connected to the logits, whether the network's weights get gradients or not.
    """

    def begin(self, cfg: TransformerConfig) -> None:
        """Forgets an earlier run."""
        self.outputs: list[Tensor] = []
        """`[some writers, D, T, N]`, in the writers' order."""

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Replaces and keeps."""
        written = super().write(writers, outputs)
        if not written.requires_grad:
            written = written.detach().requires_grad_()
        self.outputs.append(written)
        return written
