"""Interventions on a run of the transformer: they take the place of hooks.

At each step `Transformer.run` passes what it has computed to an `Interventions` object, and goes on with what
that returns. Patched values are data (activations of other rows or of another run, a mean, zero), not a mode.

Shapes: D d_model, H heads, E d_head, T positions, Q positions of queries, K positions of keys, N rows, W
nodes (writers), R readers.
"""

from collections.abc import Sequence

from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.tensors import (
    Patterns,
    Projections,
    ReaderInputs,
    Residual,
    SharedRows,
    WriterOutputs,
)


class Interventions:
    """No intervention: the base class, and what a clean run uses.

    `readers` and `writers` are indices in the graph; a step handles all heads of a layer, or one MLP. Rows
    whose readers see different inputs are run apart from the others, as trailing rows. What heads compute is
    then a list of two tensors: one of the leading rows and one of the trailing rows.
    """

    def begin(self, cfg: TransformerConfig) -> None:
        """Prepares for a run; it is called once before each."""

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Decides what some readers see instead of the residual stream `[D, T, N]`.

        Returns:
            The leading rows `[D, T, N1]`, which all these readers see alike, and the trailing rows
            `[len(readers), D, T, N2]` with an input for each reader; None if there are no trailing rows.
        """
        return residual, None

    def project(self, writers: Sequence[int], projected: list[Projections]) -> list[Projections]:
        """Returns the queries, keys and values `[3, H, E, T, N]` that a layer's heads use instead."""
        return projected

    def attend(self, writers: Sequence[int], patterns: list[Patterns]) -> list[Patterns]:
        """Returns the attention patterns `[H, Q, K, N]` that a layer's heads use instead."""
        return patterns

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns what the nodes of a step write instead of their outputs `[len(writers), D, T, N]`."""
        return outputs


class Together(Interventions):
    """Several interventions on one run, applied one after the other; at most one of them may split rows."""

    def __init__(self, *each: Interventions):
        self.each = each

    def begin(self, cfg: TransformerConfig) -> None:
        """Prepares each of them for a run."""
        for one in self.each:
            one.begin(cfg)

    def read(self, readers: Sequence[int], residual: Residual) -> tuple[SharedRows, ReaderInputs | None]:
        """Returns what the intervention that splits rows returns, if there is one."""
        found = [one.read(readers, residual) for one in self.each]
        splits = [(shared, split) for shared, split in found if split is not None]
        assert len(splits) <= 1, f"two interventions give readers {list(readers)} inputs of their own"
        return splits[0] if splits else (residual, None)

    def project(self, writers: Sequence[int], projected: list[Projections]) -> list[Projections]:
        """Returns queries, keys and values after all of them."""
        for one in self.each:
            projected = one.project(writers, projected)
        return projected

    def attend(self, writers: Sequence[int], patterns: list[Patterns]) -> list[Patterns]:
        """Returns attention patterns after all of them."""
        for one in self.each:
            patterns = one.attend(writers, patterns)
        return patterns

    def write(self, writers: Sequence[int], outputs: WriterOutputs) -> WriterOutputs:
        """Returns outputs after all of them."""
        for one in self.each:
            outputs = one.write(writers, outputs)
        return outputs
