"""What is measured of each network.

Features are numbers of a whole network that can be computed without knowing its circuit. Only decodability
needs to know the variables of the program; all others could be taken of any network. Of each node there are
numbers, too, for the figure of the nodes of the circuit and others.

Shapes: W nodes, D d_model, V outputs, T positions with BOS, P = T - 1 without it, N inputs, H heads, Q
positions of queries, K positions of keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.ground_truth import State, Truth
from interpbench.core import seeds
from interpbench.scoring.behaviour import SMALLEST_GAP
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Metric
from interpbench.tasks.task import Task
from interpbench.training.interventional_accuracy import Evaluation
from interpbench.transformer.fast.run_circuits import run_circuits
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import AttentionPatterns, record

INPUTS = 1024
"""The number of inputs that activations are measured on, and of pairs that effects are."""
NOISES = (0.1, 0.2, 0.4, 0.8)
"""The standard deviations of the noise that is added to the embedding, as shares of the embedding's own."""
DECODABILITY = "decodability of variables"
"""How the names of the features begin that need the program's variables."""
RIDGE = 1e-3
"""The penalty of linear probes, relative to the mean square of activations."""


@dataclass(frozen=True)
class Measured:
    """The measurements of a network.

    Attributes:
        accuracy: the share of inputs for which all outputs are right.
        features: the features by name.
        nodes: numbers of each node but the embedding by name, in the order of the graph.
        required: whether each of these nodes is in the circuit that guided networks have, or in others at the
            place of such a node.
        heads: whether each of these nodes is a head; the others are MLPs.
    """

    accuracy: float
    features: dict[str, float]
    nodes: dict[str, list[float]]
    required: list[bool]
    heads: list[bool]


@torch.no_grad()
def measure(evaluation: Evaluation, truth: Truth, initial: Transformer) -> Measured:
    """Returns the measurements of a network.

    Args:
        evaluation: the network with its task.
        truth: which nodes the circuit requires.
        initial: the network with the weights that training started from.
    """
    task, network, graph = evaluation.task, evaluation.network, evaluation.alignment.graph
    codes = task.domain.draw(seeds.generator(0, "realism", task.name), INPUTS)
    run = evaluation.activations(codes)
    wanted = run.trace[evaluation.causal_model.output]
    right = evaluation.right(evaluation.predictions(run.logits), wanted)
    resampled, averaged = effects(task, network)
    norms, spread = norms_and_spread(run.stack)
    decoded = decodability(run.stack, hidden_variables(evaluation, run.trace))
    nodes = {
        "effect of resampling": resampled,
        "effect of the mean": averaged,
        "norm": norms[1:],
        "share of variance": spread[1:],
        "decodability": decoded[1:].max(1),
    }
    features = {
        "effect of resampling: largest": float(resampled.max()),
        "effect of resampling: effective number of nodes": effective(resampled.clip(0)) / len(resampled),
        "effect of resampling: nodes without effect": float((abs(resampled) < 0.01).mean()),
        "effect of the mean: largest": float(averaged.max()),
        "effect of the mean: effective number of nodes": effective(averaged.clip(0)) / len(averaged),
        "effect of the mean: nodes without effect": float((abs(averaged) < 0.01).mean()),
        "norm of outputs: mean": float(norms[1:].mean() / norms[0]),
        "norm of outputs: effective number of nodes": effective(norms[1:]) / len(norms[1:]),
        "variance of outputs: mean": float(spread[1:].mean()),
        "variance of outputs: effective number of nodes": effective(spread[1:]) / len(spread[1:]),
        **spectra(network),
        **attention(network, torch.from_numpy(task.token_ids(codes))),
        f"{DECODABILITY}: best node": float(decoded[1:].max(0).mean()),
        f"{DECODABILITY}: mean over nodes": float(decoded[1:].mean()),
        **distances(network, initial),
        "accuracy with noise": noisy_accuracy(evaluation, codes, wanted),
    }
    required = (truth.nodes[1:] == State.REQUIRED).tolist()
    heads = [node.head is not None for node in graph.nodes[1:]]
    numbers = {name: x.tolist() for name, x in nodes.items()}
    return Measured(float(right.mean()), features, numbers, required, heads)


def effective(values: np.ndarray) -> float:
    """Returns how many values carry the sum: 1 if one has it all, their number if all are equal."""
    return float(values.sum() ** 2 / max(np.square(values).sum(), 1e-12))


@torch.no_grad()
def effects(task: Task, network: Transformer) -> tuple[np.ndarray, np.ndarray]:
    """Returns how much of the logit difference is lost by patching each node but the embedding, `[W - 1]`.

    0 is none of it; 1 all of it, so that the network answers as on the corrupted input.

    Returns:
        The loss by the output on the corrupted input, and by the mean output over inputs at each position.
    """
    problem = draw_pairs(task, INPUTS, 1).problem(network)
    logits, clean = record(network, problem.clean)
    other, corrupted = record(network, problem.corrupted)
    metric = Metric("logit_diff", problem, logits, other)
    full, empty = float(metric(logits).mean()), float(metric(other).mean())
    count = len(problem.graph.nodes)
    masks = np.eye(count, dtype=bool)[1:]
    found: list[np.ndarray] = []
    for patch in (corrupted.stack, clean.stack.mean(-1, keepdim=True).expand_as(clean.stack)):
        sums = np.zeros(len(masks))
        for part in run_circuits(network, clean, patch, nodes=masks):
            values = metric.part(part.examples)(part.logits)
            sums[part.circuits] += values.sum(1).double().numpy()
        gap = full - empty
        lost = (full - sums / len(problem.clean)) / (gap if abs(gap) > SMALLEST_GAP else np.nan)
        found.append(np.nan_to_num(lost))
    return found[0], found[1]


def norms_and_spread(stack: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Returns each node's mean norm `[W]`, and its variance over inputs as a share of its mean square `[W]`.

    Args:
        stack: what nodes write, `[W, D, T, N]`.
    """
    written = stack[:, :, 1:].double()
    squares = written.square().sum(1)
    variance = written.var(-1, correction=0).sum(1).mean(-1)
    norms = squares.sqrt().mean((1, 2))
    return norms.numpy(), (variance / squares.mean((1, 2)).clamp(min=1e-12)).numpy()


def spectra(network: Transformer) -> dict[str, float]:
    """Returns the mean effective ranks of heads' OV and QK maps and of MLPs', and their mean sizes."""
    state = {name: value.double() for name, value in network.state_dict().items()}
    maps: dict[str, list[Tensor]] = {"OV": [], "QK": [], "MLP": []}
    for layer in range(network.cfg.n_layers):
        attn, mlp = f"blocks.{layer}.attn.", f"blocks.{layer}.mlp."
        maps["OV"] += list(state[f"{attn}W_V"] @ state[f"{attn}W_O"])
        maps["QK"] += list(state[f"{attn}W_Q"] @ state[f"{attn}W_K"].transpose(1, 2))
        maps["MLP"].append(state[f"{mlp}W_in"] @ state[f"{mlp}W_out"])
    found: dict[str, float] = {}
    for name, some in maps.items():
        values = [torch.linalg.svdvals(one).numpy() for one in some]
        sizes = np.array([np.linalg.norm(x) for x in values])
        found[f"{name} spectrum: effective rank"] = float(np.mean([effective(x**2) for x in values]))
        found[f"{name} spectrum: size"] = float(sizes.mean())
        found[f"{name} spectrum: spread of sizes"] = float(sizes.std() / sizes.mean())
    return found


def attention(network: Transformer, tokens: Tensor) -> dict[str, float]:
    """Returns how sharp attention is, how much of it BOS has, and how much it depends on the input."""
    patterns = AttentionPatterns()
    network.run(network.embedding(tokens), patterns)
    each = torch.cat(patterns.each)[:, 1:].double()  # queries after BOS, [H, Q, K, N]
    entropy = -(each * each.clamp(min=1e-12).log()).sum(2).mean((1, 2))
    return {
        "attention: mean entropy": float(entropy.mean()),
        "attention: spread of entropy": float(entropy.std(correction=0)),
        "attention: share at BOS": float(each[:, :, 0].mean()),
        "attention: largest weight": float(each.amax(2).mean()),
        "attention: deviation over inputs": float(each.std(-1, correction=0).sum(2).mean()),
    }


def hidden_variables(evaluation: Evaluation, trace: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Returns the values of the variables between input and output, as targets `[N × P, K]`."""
    model = evaluation.causal_model
    found: list[np.ndarray] = []
    for name, variable in model.variables.items():
        if not variable.reads or name == model.output:
            continue
        values = trace[name].reshape(-1)
        if variable.values is None:
            found.append(np.nan_to_num(values, nan=float(np.nanmean(values)))[:, None])
        else:
            found.append(np.eye(len(variable.values) + 1)[values])  # None, which is -1, last
    return found


def decodability(stack: Tensor, targets: Sequence[np.ndarray]) -> np.ndarray:
    """Returns how well linear probes read each variable off each node, `[W, variable]`, on held-out inputs.

    It is the share of errors of the best constant that the probe avoids (R² of numbers): 1 is perfect.

    Args:
        stack: what nodes write, `[W, D, T, N]`.
        targets: the values of variables `[N × P, K]`, one-hot or as numbers.
    """
    inputs = stack[:, :, 1:].permute(0, 3, 2, 1).flatten(1, 2).double().numpy()  # [W, N × P, D]
    half = inputs.shape[1] // 2
    wanted = np.concatenate(targets, 1)
    found = np.zeros((len(inputs), len(targets)))
    for node, rows in enumerate(inputs):
        x = np.concatenate([rows, np.ones((len(rows), 1))], 1)
        penalty = RIDGE * max(float(np.square(rows).mean()), 1e-12) * np.eye(x.shape[1])
        gram = x[:half].T @ x[:half] / half + penalty
        read = x[half:] @ np.linalg.solve(gram, x[:half].T @ wanted[:half] / half)
        first = 0
        for place, target in enumerate(targets):
            width = target.shape[1]
            mine, true = read[:, first : first + width], target[half:]
            first += width
            if width == 1:
                lost, constant = np.square(mine - true).mean(), true.var()
            else:
                lost = (mine.argmax(1) != true.argmax(1)).mean()
                constant = 1 - true.mean(0).max()
            found[node, place] = max(0.0, 1 - lost / constant) if constant > 0 else 1.0
    return found


def distances(network: Transformer, initial: Transformer) -> dict[str, float]:
    """Returns how far each kind of weights is from where training started, relative to the norm there."""
    groups = {
        "embedding": ("W_E", "W_pos"),
        "QK": ("W_Q", "W_K"),
        "OV": ("W_V", "W_O"),
        "MLP": ("W_in", "W_out"),
        "unembedding": ("W_U",),
    }
    before, now = initial.state_dict(), network.state_dict()
    found: dict[str, float] = {}
    for group, kinds in groups.items():
        names = [name for name in before if name.rsplit(".", 1)[-1] in kinds]
        moved = sum(float((now[name] - before[name]).double().square().sum()) for name in names)
        start = sum(float(before[name].double().square().sum()) for name in names)
        found[f"distance from the start: {group}"] = (moved / start) ** 0.5
    return found


def noisy_accuracy(evaluation: Evaluation, codes: np.ndarray, wanted: np.ndarray) -> float:
    """Returns the mean accuracy of single outputs over several sizes of noise on the embedding."""
    network, task = evaluation.network, evaluation.task
    embedding = network.embedding(torch.from_numpy(task.token_ids(codes)))
    size = float(embedding.std())
    generator = torch.Generator().manual_seed(0)
    scored = task.scored(wanted)
    shares: list[float] = []
    for noise in NOISES:
        drawn = torch.empty(embedding.shape).normal_(0, noise * size, generator=generator)
        answers = evaluation.predictions(network.run(embedding + drawn))
        if evaluation.causal_model.numerical:
            right = abs(answers - np.nan_to_num(wanted)) <= task.tolerance
        else:
            right = answers == wanted
        shares.append(float(right[scored].mean()))
    return float(np.mean(shares))
