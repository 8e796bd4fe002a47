"""Checkpoints: a folder with weights, a record and a certificate."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.checkpoints.format import Checkpoint, save_checkpoint
    from interpbench.checkpoints.load import load_checkpoint, load_pairs
    from interpbench.checkpoints.record import ModelRecord

__all__ = ["Checkpoint", "ModelRecord", "load_checkpoint", "load_pairs", "save_checkpoint"]
__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(("Checkpoint", "save_checkpoint"), "interpbench.checkpoints.format"),
        **dict.fromkeys(("load_checkpoint", "load_pairs"), "interpbench.checkpoints.load"),
        "ModelRecord": "interpbench.checkpoints.record",
    },
)
