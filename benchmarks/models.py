"""Prints the README's table of released models, from their records and certificates.

Run: `python -m benchmarks.models`.
"""

import json

from interpbench.checkpoints.find import released
from interpbench.tasks.catalogue import get_task


def main() -> None:
    """Prints one Markdown row a model."""
    for name, folder in released().items():
        record = json.loads((folder / "model.json").read_text())
        certificate = json.loads((folder / "certificate.json").read_text())
        required = len(record["truth"]["qkv_edge"]["required"])
        allowed = len(record["truth"]["qkv_edge"]["allowed"])
        cells = [
            name,
            str(record["legacy_id"] or "–"),
            f"{get_task(name).domain.size:,}",
            f"{record['steps']:,}",
            f"{record['seconds']:.0f} s",
            f"{required} (+ {allowed} allowed)",
            f"{certificate['margin']:.2g}",
        ]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
