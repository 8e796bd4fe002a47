"""What nodes outside the circuits of released models do if they are set to values that never occur.

All forbidden nodes of a model are set at once to each kind of value of `training.stress`, on 512 inputs. The
table of `docs/never_occurs.md` has the models whose answers stay right on 99 % of them; the figure,
`docs/never-occurs.png`, has the shares of right answers against the number of standard deviations.

Run: `python -m benchmarks.stress`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from interpbench.checkpoints.checkpoint_files import in_regimes, released
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.load import load_checkpoint
from interpbench.core.files import write_text
from interpbench.core.process import prepare_torch
from interpbench.reports.models_page import put
from interpbench.reports.palette import COLOURS, Picture, save
from interpbench.runs.subject import subject_of
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.training.stress import stress

SCALES = (1.0, 3.0, 10.0, 30.0, 100.0)
KINDS = ("one node", "several nodes", "in regimes")
PAGE, FIGURE = Path("docs/never_occurs.md"), Path("docs/never-occurs.png")
BEGIN = "<!-- made by `python -m benchmarks.stress` -->"
RIGHT = 0.99
"""The share of right answers from which on a model stands the values."""


def measured() -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yields the kind of each model, its name, and its shares of right answers."""
    several = {folder.name for folder in find_checkpoints("nontrivial")}
    for models, regimes in ((released(), False), (in_regimes(), True)):
        for name, folder in models.items():
            checkpoint = load_checkpoint(folder, certificate=False)
            subject = subject_of(checkpoint)
            nodes = subject.alignment.unaligned_nodes
            forbidden = np.array([node in nodes for node in subject.alignment.graph.nodes])
            evaluation = Evaluation(checkpoint.network, subject.alignment)
            kind = KINDS[2] if regimes else KINDS[name in several]
            yield kind, name, stress(evaluation, forbidden, 0, SCALES)


def table(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Returns the table: how many models of each kind stand each kind of value."""
    names = list(next(iter(next(iter(found.values())).values())))
    lines = [f"| models | number | {' | '.join(names)} |", f"| --- | --: |{' --: |' * len(names)}"]
    for kind, models in found.items():
        shares = [[one[name] for one in models.values() if name in one] for name in names]
        cells = [f"{sum(value >= RIGHT for value in each)}" for each in shares]
        lines.append(f"| {kind} | {len(models)} | {' | '.join(cells)} |")
        cells = [f"{np.mean(each):.3f}" for each in shares]
        lines.append(f"| – mean share of right answers | | {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Picture:
    """Returns the figure: the shares of right answers of each model, and their mean."""
    picture = Picture(figsize=(9, 3.2), layout="constrained")
    for axes, (kind, models), colour in zip(picture.subplots(1, 3, sharey=True), found.items(), COLOURS):
        rows = np.array([[one[f"±{scale:g}σ"] for scale in SCALES] for one in models.values()])
        axes.plot(SCALES, rows.T, color=colour, alpha=0.2, linewidth=0.8)
        axes.plot(SCALES, rows.mean(0), color=colour, linewidth=2.2)
        axes.set(
            xscale="log", xlabel="standard deviations", title=f"{kind} ({len(rows)})", ylim=(-0.02, 1.02)
        )
    picture.axes[0].set_ylabel("right answers")
    return picture


def main() -> None:
    """Measures all models, and writes table and figure."""
    prepare_torch(threads=1)
    found: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in KINDS}
    for kind, name, shares in measured():
        found[kind][name] = shares
        print(kind, name, {key: round(value, 3) for key, value in shares.items()}, flush=True)
    write_text(PAGE, put(PAGE.read_text(), table(found), BEGIN))
    save(figure(found), FIGURE)


if __name__ == "__main__":
    main()
