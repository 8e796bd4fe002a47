"""Networks of dials that need no training: louder noise, and nodes that are copied among more of them."""

import copy

import numpy as np
import torch

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.format import Checkpoint
from interpbench.circuits.ground_truth import State, Truth
from interpbench.runs.certified_training import copying
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.regimes.regime import RegimeTask
from interpbench.tasks.shapes import shape
from interpbench.training.transplant import Transplant
from interpbench.transformer.layers import Block
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

CHECKED = 4096
"""The number of inputs on which answers are compared."""


@torch.no_grad()
def louder(checkpoint: Checkpoint, times: float) -> Transformer | None:
    """Returns the network whose nodes after the circuit write so many times as much, around their mean.

    No node of the circuit can read them, so that the circuit does what it did, and the mean logits stay. They
    are changed one after the other, as later ones read earlier ones. None if no node comes after the circuit.
    """
    network, truth = copy.deepcopy(checkpoint.network), checkpoint.truth
    rows = draw_pairs(get_task(checkpoint.task), 256).clean

    def written(network: Transformer, place: int) -> tuple[torch.Tensor, float]:
        outputs = record(network, rows)[1].stack[place, :, 1:]
        return outputs.mean((1, 2)), float(outputs.std((1, 2)).norm())

    later = range(int(np.flatnonzero(truth.nodes == State.REQUIRED)[-1]) + 1, len(truth.nodes))
    for place in later:
        node = truth.graph.nodes[place]
        (wanted, spread), (mean, now) = (written(one, place) for one in (checkpoint.network, network))
        factor = times * spread / max(now, 1e-9)
        block: Block = network.blocks[node.layer]  # type: ignore[assignment]
        if node.head is None:
            block.mlp.W_out.mul_(factor)
            block.mlp.b_out.mul_(factor).add_(wanted - factor * mean)
        else:
            block.attn.W_O[node.head].mul_(factor)
            block.attn.b_O.add_(wanted - factor * mean)
    return network if later else None


def changed_answers(checkpoint: Checkpoint, network: Transformer) -> float:
    """Returns the share of a network's answers, at scored positions, that are not the checkpoint's."""
    pairs = draw_pairs(get_task(checkpoint.task), CHECKED, 1)
    logits, before = (record(one, pairs.clean)[0] for one in (network, checkpoint.network))
    differs = logits.argmax(0) != before.argmax(0)
    scored = pairs.scored.T
    return float((differs & scored).sum() / scored.sum())


def copied(name: str, alone: Checkpoint) -> tuple[Transformer, Truth]:
    """Returns a wide network with the nodes of that of the task alone, and its truth."""
    task = get_task(name)
    assert isinstance(task, RegimeTask)
    network = Transformer(shape(task, ModelSettings(**copying(task, alone)["model"])), 0)
    trained = align(get_task(alone.task), alone.network.cfg.graph, alone.record.alignment)
    alignment = align(task, network.cfg.graph)
    Transplant(alone.network, trained, alignment, alignment).into(network, 0)
    return network, find_truth(alignment)
