"""What rows of a run really write and see: the protocol of interventions, which there are no hooks for.

`Transformer.run` asks an `Interventions` object at every step that can be intervened on. Shapes as in
`model.py`. Patched values are data (activations of other rows, of another run, a mean, zero), not a mode.
"""

from collections.abc import Sequence

from torch import Tensor

from interpbench.transformer.config import TransformerConfig


class Interventions:
    """No intervention: the base class, and what a clean run uses.

    Readers and writers are asked for by their places in the graph, those of one step together. Rows that see
    different inputs at different readers are run apart from the others; where they are, what a head has is a
    list: of the leading rows first, then of the trailing ones.
    """

    def begin(self, cfg: TransformerConfig) -> None:
        """Called once before a run."""

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Splits rows by how some readers see the residual stream `[D, T, N]`.

        Returns:
            The leading rows `[D, T, N1]`, which all these readers see alike, and the trailing rows
            `[len(readers), D, T, N2]` with an input for each reader, or None.
        """
        return residual, None

    def project(self, writers: Sequence[int], projected: list[Tensor]) -> list[Tensor]:
        """Gets the queries, keys and values `[3, H, E, T, N]` of a layer's heads; returns what they use."""
        return projected

    def attend(self, writers: Sequence[int], patterns: list[Tensor]) -> list[Tensor]:
        """Gets the attention patterns `[H, Q, K, N]` of a layer's heads; returns by which they attend."""
        return patterns

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Gets the outputs `[K, D, T, N]` of some writers; returns what is written."""
        return outputs


class Together(Interventions):
    """Several interventions on one run, in turn; at most one of them gives readers inputs of their own."""

    def __init__(self, *each: Interventions):
        self.each = each

    def begin(self, cfg: TransformerConfig) -> None:
        """Begins all of them."""
        for one in self.each:
            one.begin(cfg)

    def read(self, readers: Sequence[int], residual: Tensor) -> tuple[Tensor, Tensor | None]:
        """Lets the one that splits rows split them."""
        found = [one.read(readers, residual) for one in self.each]
        splits = [(shared, split) for shared, split in found if split is not None]
        assert len(splits) <= 1, "two interventions give the same readers inputs of their own"
        return splits[0] if splits else (residual, None)

    def project(self, writers: Sequence[int], projected: list[Tensor]) -> list[Tensor]:
        """Applies all of them."""
        for one in self.each:
            projected = one.project(writers, projected)
        return projected

    def attend(self, writers: Sequence[int], patterns: list[Tensor]) -> list[Tensor]:
        """Applies all of them."""
        for one in self.each:
            patterns = one.attend(writers, patterns)
        return patterns

    def write(self, writers: Sequence[int], outputs: Tensor) -> Tensor:
        """Applies all of them."""
        for one in self.each:
            outputs = one.write(writers, outputs)
        return outputs
