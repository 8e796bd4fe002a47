"""The inputs that nodes get in one sample of causal scrubbing, as a page shows them."""

from collections.abc import Mapping

import numpy as np

from interpbench.circuits.naming import EMBED
from interpbench.reports.scrubbing_picture import PathInput, ScrubbedSample
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.path_draws import PATH, PathDraws
from interpbench.scrubbing.residual import ScrubbedNetwork, is_split, network_parents
from interpbench.tasks.task import Task


def scrubbed_sample(
    scrubbed: ScrubbedNetwork,
    hypothesis: Hypothesis,
    draws: PathDraws,
    task: Task,
    tokens: np.ndarray,
    about: Mapping[str, tuple[str, ...]],
    number: int | None = None,
) -> ScrubbedSample | None:
    """Returns the inputs of a sample on all paths; None if the paths are too many to run them one by one.

    Args:
        scrubbed: the network.
        hypothesis: the hypothesis.
        draws: the draws.
        task: the task.
        tokens: the inputs, `[N, pos]`.
        about: what claims are about, by node: the names of variables, if they are known.
        number: the number of the sample, from 1; None for the one in which most nodes get another input than
            the node that reads them.
    """
    if hypothesis.many:
        return None
    paths = scrubbed.paths(hypothesis, draws)
    drawn = {name: row for one in paths.values() for name, row in zip(one.names, one.inputs)}
    above = {name: drawn[name.rpartition(PATH)[0] or name] for name in drawn}
    content = np.unique(tokens, axis=0, return_inverse=True)[1].reshape(-1)  # inputs may be there twice
    changed = {name: content[drawn[name]] != content[above[name]] for name in drawn}
    changes = np.sum(list(changed.values()), 0)
    at = int(changes.argmax()) if number is None else number - 1
    parents = network_parents(scrubbed.graph, is_split(hypothesis))
    unimportant: dict[str, tuple[str, ...]] = {}
    found: list[PathInput] = []

    def text(row: int) -> str:
        return " ".join(str(task.vocab[code]) for code in tokens[row] if code >= 0)

    for claim, one in paths.items():
        image, values = hypothesis.claims[claim].image, hypothesis.claims[claim].values
        important = {hypothesis.claims[parent].image for parent in hypothesis.parents(claim)}
        unimportant[image] = tuple(name for name in parents[image] if name not in important)
        for name, inputs in zip(one.names, one.inputs):
            agrees = (
                "" if values is None or claim == hypothesis.output else _said(np.asarray(values)[inputs[at]])
            )
            rest = text(draws.other(name, inputs, "")[at]) if unimportant[image] else ""
            found.append(PathInput(name, image, text(inputs[at]), bool(changed[name][at]), agrees, rest))
    edges = [(hypothesis.claims[a].image, hypothesis.claims[b].image) for a, b in hypothesis.edges]
    graph = scrubbed.graph
    return ScrubbedSample(
        at + 1,
        graph.n_layers,
        graph.n_heads,
        tuple(edges),
        tuple(found),
        {name: variables for name, variables in about.items() if name != str(EMBED)},
        {name: others for name, others in unimportant.items() if others},
    )


def _said(value: object) -> str:
    """Returns a claim's value on an input, which may be a number, a word or an array of them."""
    return " ".join(
        f"{one:g}" if isinstance(one, int | float) else str(one)
        for one in np.asarray(value).reshape(-1).tolist()
    )
