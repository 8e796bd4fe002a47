"""Loads checkpoints of either format: ours, or that of the published InterpBench files."""

from pathlib import Path

from interpbench.checkpoints.checkpoint_files import DATA, is_ours, published_weights
from interpbench.checkpoints.format import Checkpoint, read_checkpoint, read_pairs
from interpbench.checkpoints.record import read_record
from interpbench.tasks.problem import Pairs


def load_checkpoint(folder: Path, certificate: bool = True) -> Checkpoint:
    """Reads a checkpoint, ours or one of the published InterpBench files.

    Args:
        folder: the checkpoint's.
        certificate: whether to read the certificate; one of an older format is said to be, and left out.

    Raises:
        CheckpointError: one line, if it is missing, damaged, truncated, foreign or of a newer format, or has
            a certificate of other weights.
    """
    if not is_ours(folder) and published_weights(folder) is not None:
        from interpbench.checkpoints.published_files import load_published  # which needs Tracr

        return load_published(folder, certificate)
    return read_checkpoint(folder, certificate)


def load_pairs(folder: Path) -> Pairs:
    """Reads the pairs of inputs of a checkpoint.

    Raises:
        CheckpointError: if they are missing or damaged.
    """
    if not is_ours(folder) and published_weights(folder) is not None:
        from interpbench.checkpoints.published_files import draw_published_pairs

        return draw_published_pairs(folder)
    return read_pairs(folder / DATA, read_record(folder).shape)
