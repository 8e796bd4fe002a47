"""How much claims say on the inputs at hand, and whether what they forbid matters.

A claim with which hardly any two inputs agree exchanges nothing, and is kept whatever the network does: it is
*vacuous*. So of each claim there are the share of inputs that are alone, the effective size of its classes,
and what is recovered if its values are given to other inputs: a claim that survives that says nothing. The
negative test gives a node's output on an input of *another* class: the output must then be the program's with
these values.
"""

from dataclasses import dataclass

import numpy as np
import torch

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Intervention, Trace, changed
from interpbench.circuits.naming import EMBED, Node, is_head_input
from interpbench.core import seeds
from interpbench.core.estimate import Estimate
from interpbench.scrubbing.classes import Classes
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PathDraws
from interpbench.scrubbing.recovered import ScoredLabels, recovered
from interpbench.scrubbing.residual import ScrubbedNetwork
from interpbench.transformer.routes import Replaced


@dataclass(frozen=True)
class ClaimReport:
    """How much a claim says.

    Attributes:
        alone: the share of inputs with which no other agrees.
        effective_size: the effective number of inputs that agree with one.
        permuted: the percentage of the loss that is recovered if the values are given to other inputs; None
            if the claim has no values, or it is not defined.
    """

    alone: float
    effective_size: float
    permuted: Estimate | None


def claim_reports(
    scrubbed: ScrubbedNetwork, hypothesis: Hypothesis, draws: PathDraws, behaviour: ScoredLabels
) -> dict[str, ClaimReport]:
    """Returns how much each claim says, but those about input, output and inputs of heads.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        draws: the draws.
        behaviour: the behaviour that is to be recovered.
    """
    classes = hypothesis.classes(scrubbed.count, draws.everything.ids)
    found: dict[str, ClaimReport] = {}
    for name in hypothesis.order:
        image = hypothesis.claims[name].image
        if name in (hypothesis.input, hypothesis.output) or is_head_input(image):
            continue
        permuted = None
        if hypothesis.claims[name].values is not None:
            rng = seeds.generator(draws.seed, "permuted", name)
            other = {**classes, name: classes[name].permuted(rng)}
            logits = scrubbed.scrub(hypothesis, draws, other)
            lengths = draws.everything.ids
            permuted = recovered(behaviour, logits, scrubbed.logits, draws.root, lengths=lengths).percent
        found[name] = ClaimReport(classes[name].alone, classes[name].effective_size, permuted)
    return found


@dataclass(frozen=True)
class NegativeTest:
    """What a network answers if one node's output is that on an input of another class.

    Attributes:
        right: the share of samples whose answers are the program's with these values.
        matters: the share of samples in which these answers differ from those without.
        kept: the share of samples with the same answers if the input is of the same class.
    """

    right: Estimate
    matters: float
    kept: Estimate


@torch.no_grad()
def negative_tests(
    scrubbed: ScrubbedNetwork, alignment: Alignment, trace: Trace, behaviour: ScoredLabels, draws: PathDraws
) -> dict[Node, NegativeTest]:
    """Returns the negative test of each node that carries variables.

    Args:
        scrubbed: the network.
        alignment: the nodes of the program's variables.
        trace: the program's variables on the inputs, `[N, pos]` each.
        behaviour: the behaviour, whose labels are the program's.
        draws: the draws.
    """
    model, graph, root = alignment.task.causal_model, alignment.graph, draws.root
    base = {name: values[root] for name, values in trace.items()}
    found: dict[Node, NegativeTest] = {}
    for node, names in alignment.aligned_nodes.items():
        if node == EMBED:
            continue
        values = np.concatenate([trace[name].astype(np.float64) for name in names], 1)
        classes = Classes.of(values, scrubbed.count, draws.everything.ids)
        rng = seeds.generator(draws.seed, "negative", str(node))
        wrong, same = (
            classes.pick_outside(rng.random(len(root)), root),
            classes.pick(rng.random(len(root)), root),
        )
        everywhere = np.ones(len(root), bool)
        swaps = {name: Intervention(trace[name][wrong], everywhere) for name in names}
        wanted = model.run(base["tokens"], swaps, clean=base)[model.output]
        matters = np.any(changed(base[model.output], wanted), axis=1)
        place = graph.node_index[node]
        good = [
            _right(behaviour, _with_node(scrubbed, place, root, donors), answers)
            for donors, answers in ((wrong, wanted), (same, base[model.output]))
        ]
        counts = [(int(some.sum()), len(some)) for some in good]
        found[node] = NegativeTest(
            Estimate.share(*counts[0]), float(matters.mean()), Estimate.share(*counts[1])
        )
    return found


def _with_node(scrubbed: ScrubbedNetwork, place: int, bases: np.ndarray, donors: np.ndarray) -> torch.Tensor:
    """Returns the logits `[V, T, S]` of inputs with one node's output on other inputs.

    Args:
        scrubbed: the network.
        place: the index of the node.
        bases: the inputs, `[S]`.
        donors: the inputs whose output the node gives, `[S]`.
    """
    stack = scrubbed.cache.stack
    patch = torch.zeros(len(stack), *stack.shape[1:3], len(bases), dtype=stack.dtype, device=stack.device)
    patch[place] = stack[place][..., torch.from_numpy(donors)]
    replaced = torch.zeros(len(stack), 1, dtype=torch.bool, device=stack.device)
    replaced[place] = True
    return scrubbed.network.run(stack[0][..., torch.from_numpy(bases)], Replaced(replaced, patch))


def _right(behaviour: ScoredLabels, logits: torch.Tensor, wanted: np.ndarray) -> np.ndarray:
    """Returns bool `[S]`, whether answers are right wherever `wanted [S, pos]` is not None."""
    if behaviour.numerical:
        near = np.abs(logits[0, 1:].cpu().numpy().T - np.nan_to_num(wanted)) <= behaviour.tolerance
        return np.all(near | np.isnan(wanted), axis=1)
    return np.all((logits[:, 1:].argmax(0).cpu().numpy().T == wanted) | (wanted < 0), axis=1)
