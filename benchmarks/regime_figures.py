"""What regimes look like inside networks: figures of docs/exam.md.

* `docs/exam-noisy.png`: how much patching each edge moves the margin, in networks of regime `noisy` and in
  their clean twins.
* `docs/exam-flat.png`: how much a patch that goes only part of the way moves the margin, as a share of what
  the whole patch does, in a clean twin and in the networks of `saturated` and `baseline`. All edges out of
  the embedding are patched together but those into the logits and into values that cannot be flat, as paths
  of integrated gradients go.
* `docs/exam-superposed.png`: the cosines of the directions of tokens and positions, each without their mean,
  in a network of regime `superposed` and in its clean twin.
* `docs/exam-redundant.png` and others: circuits as `interpbench show` draws them. `docs/exam-twin.png` is
  that of the regimes that leave the circuit as it is.

Run: `python -m benchmarks.regime_figures`, a minute.
"""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.circuits.ground_truth import State
from interpbench.core import seeds
from interpbench.core.console import WIDE, console
from interpbench.core.process import prepare_torch
from interpbench.reports.palette import BLUE, COLOURS, VERMILLION, Picture, save
from interpbench.runs.show import show_task
from interpbench.runs.subject import subject_of
from interpbench.training.effect_sizes import mean_effects
from interpbench.training.flatness import patched_together
from interpbench.training.interventional_accuracy import Activations, Evaluation
from interpbench.transformer.worlds import Worlds

NOISY = ("hist", "trend_to_next", "equals_two_back")
FLAT = (
    *("equals_two_back", "equals_two_back[regime=saturated]"),
    *("equals_two_back[regime=saturated,regime=noisy]", "equals_two_back[regime=baseline,regime=noisy]"),
)
SUPERPOSED = "equals_two_back"
DRAWN = {
    "alive": "max_with_previous[regime=alive]",
    "redundant": "trend_to_next[regime=redundant]",
    "shares": "differs_from_both_neighbours[regime=shares]",
    "rare": "trend_to_next[regime=rare]",
    "twin": "equals_two_back",
    "cancelling": "detect_abc[regime=cancelling]",
    "wide": "trend_to_next[regime=wide,times=2]",
    "normed": "trend_to_next[regime=normed]",
}
ROWS, POINTS = 256, 26
"""The pairs that means are of, and the points of a path."""
FOLDER = Path("docs")


def runs_of(checkpoint: Checkpoint) -> tuple[Evaluation, Activations, Activations]:
    """Returns the evaluation of a network, and its activations on bases and on their sources."""
    evaluation = Evaluation(checkpoint.network, subject_of(checkpoint).alignment)
    rng, domain = seeds.generator(0, "regime figures", checkpoint.task), evaluation.task.domain
    tokens = domain.draw(rng, ROWS, True)
    base, source = map(evaluation.activations, (tokens, domain.sources(rng, tokens, True)))
    return evaluation, base, source


def edge_effects(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Returns how much each edge moves the margin: required ones, forbidden ones, those into the logits."""
    evaluation, base, source = runs_of(checkpoint)
    states = checkpoint.truth.qkv_edges
    last = np.array([reader.slot == "logits" for reader in checkpoint.truth.graph.readers])[:, None]
    kinds = {
        "required": states == State.REQUIRED,
        "forbidden, into the logits": (states == State.FORBIDDEN) & last,
        "other forbidden": (states == State.FORBIDDEN) & ~last,
    }
    return {said: mean_effects(evaluation, base, source, np.argwhere(some)) for said, some in kinds.items()}


@torch.no_grad()
def along_the_way(checkpoint: Checkpoint) -> tuple[np.ndarray, np.ndarray]:
    """Returns shares of the way, and how much a patch that goes so far moves the margin, of the whole."""
    evaluation, base, source = runs_of(checkpoint)
    graph, wanted = evaluation.alignment.graph, base.trace[evaluation.causal_model.output]
    edges = next(some for some in patched_together(checkpoint.truth) if some[:, 0].sum() > 1)
    assert edges[:, 0].sum() == edges.sum(), "all are out of the embedding"
    scored = torch.from_numpy(evaluation.task.scored(wanted).T)
    stream = torch.cat([source.stack[0], base.stack[0]], -1)
    clean, shares = evaluation.signals(base.logits, wanted), np.linspace(0, 1, POINTS)

    def moved(share: float) -> float:
        far = torch.from_numpy(edges * share).float()[..., None].expand(*edges.shape, ROWS).contiguous()
        worlds = Worlds(torch.zeros(len(graph.nodes), 2, ROWS, dtype=torch.int8), far)
        signals = evaluation.signals(checkpoint.network.run(stream, worlds)[..., ROWS:], wanted)
        return float((signals - clean).abs()[scored].mean())

    found = np.array([moved(share) for share in shares])
    return shares, found / found[-1]


def cosines(checkpoint: Checkpoint) -> np.ndarray:
    """Returns the cosines of the directions of tokens and positions, BOS and padding left out."""
    network = checkpoint.network
    tokens = network.embed.W_E[: len(subject_of(checkpoint).task.vocab)]
    parts = [weights - weights.mean(0) for weights in (tokens, network.pos_embed.W_pos[1:])]
    directions = normalize(torch.cat(parts), dim=1)
    return (directions @ directions.T).numpy()


def draw_noise() -> None:
    """Draws the effects of edges in noisy networks and in their twins."""
    figure = Picture(figsize=(8, 3.6), layout="constrained")
    rng = seeds.generator(0, "jitter")
    for axes, task in zip(figure.subplots(1, len(NOISY), sharey=True), NOISY):
        for place, name in enumerate((task, f"{task}[regime=noisy]")):
            effects = edge_effects(load_checkpoint(find_checkpoint(name)))
            for column, (said, values) in enumerate(effects.items()):
                where = place + 0.25 * (column - 1) + rng.uniform(-0.07, 0.07, len(values))
                colour = (BLUE, VERMILLION, "0.6")[column]
                axes.scatter(where, values.clip(1e-4), s=13, color=colour, label=said, lw=0, alpha=0.8)
        axes.set(
            yscale="log", xticks=(0, 1), xticklabels=("clean twin", "noisy"), title=task, xlim=(-0.5, 1.5)
        )
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("a patch moves the margin by (at least 1e-4)" if task == NOISY[0] else "")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles[:3], labels[:3], loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save(figure, FOLDER / "exam-noisy.png")


def draw_flat() -> None:
    """Draws how much partial patches move the margin."""
    figure = Picture(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, colour in zip(FLAT, COLOURS):
        regimes = name.partition("[")[2].rstrip("]").replace("regime=", "").replace(",", " + ")
        axes.plot(
            *along_the_way(load_checkpoint(find_checkpoint(name))),
            color=colour,
            label=regimes or "clean twin",
        )
    axes.set(xlabel="share of the way from the clean to the corrupted input", ylim=(-0.03, None))
    axes.set_ylabel("moves the margin by, of the whole")
    axes.legend(frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, FOLDER / "exam-flat.png")


def draw_superposed() -> None:
    """Draws the cosines of directions in a superposed network and in its twin."""
    figure = Picture(figsize=(8, 3.6), layout="constrained")
    both = figure.subplots(1, 2)
    for axes, name in zip(both, (SUPERPOSED, f"{SUPERPOSED}[regime=superposed]")):
        checkpoint = load_checkpoint(find_checkpoint(name))
        drawn = axes.imshow(cosines(checkpoint), cmap="RdBu_r", vmin=-1, vmax=1)
        count, width = len(subject_of(checkpoint).task.vocab), checkpoint.network.cfg.d_model
        axes.axhline(count - 0.5, color="black", lw=0.8)
        axes.axvline(count - 0.5, color="black", lw=0.8)
        said = "clean twin" if name == SUPERPOSED else "superposed"
        axes.set(title=f"{said}: {width} dimensions", xticks=(), yticks=())
        axes.set_xlabel("tokens, then positions")
        axes.title.set_fontsize(10)
    figure.colorbar(drawn, ax=both, label="cosine of two directions", shrink=0.85)
    save(figure, FOLDER / "exam-superposed.png")


def main() -> None:
    """Draws the figures."""
    prepare_torch(threads=1)
    draw_noise()
    draw_flat()
    draw_superposed()
    for name, task in DRAWN.items():
        show_task(console(WIDE), task, FOLDER / f"exam-{name}.png")


if __name__ == "__main__":
    main()
