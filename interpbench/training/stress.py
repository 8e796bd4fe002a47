"""Activations that never occur: what nodes outside the circuit do if they are set to them.

Every intervention of a certificate, and of causal scrubbing, sets a node to what it writes on some input. A
node may be silent on all inputs and change the answer if it is not; no exchange can say so. So a certificate
also says how often answers stay right with all forbidden nodes set to values that they never have.

Shapes: W nodes, D d_model, T positions, N rows.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from interpbench.core import seeds
from interpbench.training.interventional_accuracy import Evaluation

ROWS = 512
"""The number of inputs on which answers are counted."""
SCALES = (3.0, 10.0)
"""The numbers of standard deviations by which a certificate moves forbidden nodes."""


def stress(
    evaluation: Evaluation, forbidden: np.ndarray, seed: int, scales: Sequence[float] = SCALES
) -> dict[str, float]:
    """Returns the share of inputs that are answered right with forbidden nodes off the data, by the kind.

    Args:
        evaluation: the network and its causal model.
        forbidden: bool `[W]`, the nodes.
        seed: the seed of inputs and values.
        scales: the numbers of standard deviations by which nodes are moved.
    """
    rng = seeds.generator(seed, "stress")
    base = evaluation.activations(evaluation.task.domain.draw(rng, ROWS, True))
    wanted = base.trace[evaluation.causal_model.output]
    found: dict[str, float] = {}
    for name, patch in off_data(base.stack, np.flatnonzero(forbidden), rng, scales).items():
        ((_, predictions),) = evaluation.patched(base, patch, nodes=forbidden[None])
        found[name] = float(evaluation.right(predictions, wanted).mean())
    return found


def off_data(
    stack: Tensor, nodes: np.ndarray, rng: np.random.Generator, scales: Sequence[float]
) -> dict[str, Tensor]:
    """Returns values that nodes do not have on any input, `[W, D, T, N]` each, by name.

    They are zero; the mean; noise of a node's own scale around it, and three times as much (`noise×3`); a
    step from the mean by some standard deviations, up or down in each dimension and the same at all positions
    (`±3σ`); and what another one of the nodes writes (`exchanged`).

    Args:
        stack: what nodes write, `[W, D, T, N]`.
        nodes: the indices of the nodes that exchange what they write.
        rng: the random generator.
        scales: the numbers of standard deviations of steps.
    """
    mean, scale = stack.mean(-1, keepdim=True), stack.std(-1, keepdim=True)
    noise = torch.from_numpy(rng.standard_normal(stack.shape, np.float32)).to(stack)
    values = {
        "zero": torch.zeros_like(stack),
        "mean": mean.expand_as(stack).contiguous(),
        "noise": mean + scale * noise,
        "noise×3": mean + 3 * scale * noise,
    }
    width, _, rows = stack.shape[1:]
    signs = rng.choice(np.array([-1, 1], np.float32), (len(stack), width, 1, rows))
    step = scale * torch.from_numpy(signs).to(stack)
    values |= {f"±{times:g}σ": mean + times * step for times in scales}
    if len(nodes) > 1:
        order = torch.from_numpy(rng.permutation(nodes)).to(stack.device)
        exchanged = stack.clone()
        exchanged[order] = stack[order.roll(1)]
        values["exchanged"] = exchanged
    return values
