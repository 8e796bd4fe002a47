"""Prints the README's table of released models: records, certificates, grades by the default standard.

Run: `python -m benchmarks.models`.
"""

from interpbench.checkpoints.checkpoint_files import released
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.grades import said_of
from interpbench.circuits.ground_truth import State
from interpbench.tasks.catalogue import get_task


def main() -> None:
    """Prints one Markdown row a model."""
    for name, folder in released().items():
        checkpoint = load_checkpoint(folder)
        record, truth = checkpoint.record, checkpoint.truth
        margin = "–" if checkpoint.certificate is None else f"{checkpoint.certificate.margin:.2g}"
        cells = [
            name,
            str(record.legacy_id or "–"),
            f"{get_task(name).domain.size:,}",
            f"{record.steps:,}",
            f"{record.seconds:.0f} s",
            f"{len(truth.required)} (+ {(truth.qkv_edges == State.ALLOWED).sum()} allowed)",
            margin,
            said_of(checkpoint.certificate),
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
