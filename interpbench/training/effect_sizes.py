"""How much single patched edges move the margin: the least that is signal, and the most that is noise.

A certificate says how often answers are wrong. That a patched edge never changes an answer does not say that
it moves nothing: methods that rank by small effects see the noise.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.certificate import Effects
from interpbench.circuits.ground_truth import State, Truth
from interpbench.circuits.naming import edge_name
from interpbench.core import seeds
from interpbench.training.flatness import flat_edges
from interpbench.training.interventional_accuracy import Activations, Evaluation
from interpbench.transformer.fast.run_circuits import SingleEdges, run_circuits
from interpbench.transformer.worlds import Worlds

ROWS, EACH = (16, 256), 1 << 15
"""The least and the largest number of rows, and how many (edge, row) are run at most in between."""


def effects_of(evaluation: Evaluation, truth: Truth, seed: int) -> Effects | None:
    """Returns the sizes of effects; None for a truth without required or without forbidden edges.

    Args:
        evaluation: the network, and the causal model that it implements.
        truth: the states of edges.
        seed: the seed of the pairs of inputs.
    """
    graph, domain = truth.graph, evaluation.task.domain
    edges = np.argwhere((truth.qkv_edges == State.REQUIRED) | (truth.qkv_edges == State.FORBIDDEN))
    required = truth.qkv_edges[tuple(edges.T)] == State.REQUIRED
    if required.all() or not required.any():
        return None
    rng = seeds.generator(seed, "effects")
    rows = int(np.clip(EACH // len(edges), *ROWS))
    tokens = domain.draw(rng, rows, True)
    base, source = map(evaluation.activations, (tokens, domain.sources(rng, tokens, True)))
    moved = mean_effects(evaluation, base, source, edges)
    signal = np.flatnonzero(required)[moved[required].argmin()]
    noise = np.flatnonzero(~required)[moved[~required].argmax()]
    names = [edge_name(graph.nodes[w], graph.readers[r]) for r, w in edges[[signal, noise]]]
    found = Effects(float(moved[signal]), names[0], float(moved[noise]), names[1], rows)
    flat = np.argwhere(flat_edges(truth))
    if not evaluation.task.flat or not len(flat):
        return found
    early = early_effects(evaluation, base, source, flat)
    reader, writer = flat[early.argmax()]
    return replace(
        found, early=float(early.max()), early_at=edge_name(graph.nodes[writer], graph.readers[reader])
    )


def mean_effects(
    evaluation: Evaluation, base: Activations, source: Activations, edges: np.ndarray
) -> np.ndarray:
    """Returns how much patching each edge moves the margin, as a mean over scored outputs, `[E]`.

    Args:
        evaluation: the network, and the causal model that it implements.
        base: the bases.
        source: the source of each.
        edges: the indices of each edge's reader and node, `[E, 2]`.
    """
    graph = evaluation.alignment.graph
    wanted, scored, clean = _clean(evaluation, base)
    sums = np.zeros(len(edges))
    targets = graph.reader_destination[edges[:, 0]]
    for target in sorted(set(targets.tolist())):
        here = np.flatnonzero(targets == target)
        for part in run_circuits(evaluation.network, base, source.stack, SingleEdges(graph, edges[here])):
            some = part.examples
            moved: list[Tensor] = []
            for place in range(part.logits.shape[2]):
                signals = evaluation.signals(part.logits[:, :, place], wanted[some])
                moved.append(((signals - clean[:, some]).abs() * scored[:, some]).sum())
            sums[here[part.circuits]] += torch.stack(moved).cpu().numpy()
    return sums / max(1, int(scored.sum()))


@torch.no_grad()
def early_effects(
    evaluation: Evaluation, base: Activations, source: Activations, edges: np.ndarray
) -> np.ndarray:
    """Returns how much each edge moves the margin that is patched as far as `Task.flat` says, `[E]`.

    Args:
        evaluation: the network, and the causal model that it implements.
        base: the bases.
        source: the source of each.
        edges: the indices of each edge's reader and node, `[E, 2]`.
    """
    graph, network = evaluation.alignment.graph, evaluation.network
    wanted, scored, clean = _clean(evaluation, base)
    rows = clean.shape[-1]
    stream = torch.cat([source.stack[0], base.stack[0]], -1)
    moved: list[float] = []
    for reader, writer in edges:
        shares = torch.zeros(len(graph.readers), len(graph.nodes), rows)
        shares[reader, writer] = evaluation.task.flat
        worlds = Worlds(torch.zeros(len(graph.nodes), 2, rows, dtype=torch.int8), shares.to(stream.device))
        signals = evaluation.signals(network.run(stream, worlds)[..., rows:], wanted)
        moved.append(float(((signals - clean).abs() * scored).sum() / scored.sum().clamp(min=1)))
    return np.array(moved)


def _clean(evaluation: Evaluation, base: Activations) -> tuple[np.ndarray, Tensor, Tensor]:
    """Returns the right answers of bases, where they are scored, `[P, N]`, and the margins there."""
    wanted = base.trace[evaluation.causal_model.output]
    scored = torch.from_numpy(evaluation.task.scored(wanted).T).to(evaluation.device)
    return wanted, scored, evaluation.signals(base.logits, wanted)
