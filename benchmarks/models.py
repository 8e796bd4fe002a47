"""Prints the README's table of released models, from their records and certificates.

Run: `python -m benchmarks.models`.
"""

from interpbench.checkpoints.find import released
from interpbench.checkpoints.format import load_checkpoint
from interpbench.circuits.truth import State
from interpbench.tasks.catalogue import get_task
from interpbench.training.certificate import open_edges


def main() -> None:
    """Prints one Markdown row a model."""
    for name, folder in released().items():
        checkpoint = load_checkpoint(folder)
        record, truth = checkpoint.record, checkpoint.truth
        required = int((truth.qkv_edges == State.REQUIRED).sum()) + len(open_edges(truth))
        cells = [
            name,
            str(record.legacy_id or "–"),
            f"{get_task(name).domain.size:,}",
            f"{record.steps:,}",
            f"{record.seconds:.0f} s",
            f"{required} (+ {(truth.qkv_edges == State.ALLOWED).sum()} allowed)",
            f"{(checkpoint.certificate or {})['margin']:.2g}",
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
