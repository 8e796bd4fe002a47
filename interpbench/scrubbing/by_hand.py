"""Hypotheses by hand, in a file of the user's: `interpbench scrub MODEL --hypothesis file.py:name`."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from interpbench.circuits.naming import EMBED, destination_name, edge_ends, is_edge, is_head, is_head_input
from interpbench.core.errors import InterpBenchError, TaskError
from interpbench.core.registry import Registry
from interpbench.core.text import shown
from interpbench.core.user_code import blamed, is_own, own_name, said
from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
from interpbench.scrubbing.residual import LOGITS

Written = Callable[[np.ndarray, Mapping[str, np.ndarray]], object]
"""The type of functions of inputs, as codes of tokens `[N, pos]`, and of the program's variables on them by
name, `[N, pos]` each, which have to return a hypothesis."""
HYPOTHESES: Registry[Written] = Registry("hypothesis")


def hypothesis(name: str) -> Callable[[Written], Written]:
    """Returns a decorator that registers a function as a hypothesis.

    Args:
        name: the name of the hypothesis.
    """

    def register(function: Written) -> Written:
        HYPOTHESES.add(name, function)
        return function

    return register


def circuit_hypothesis(edges: Sequence[str], values: Mapping[str, np.ndarray]) -> Hypothesis:
    """Returns the hypothesis of a circuit whose nodes are functions of some values.

    Args:
        edges: the edges by name, such as `embed->m0`, `m0->a1.h0` or, if only one input of heads is meant,
            `m0->a1.h0<v>`; if one edge names an input, all edges into heads have to.
        values: for each node that is no function of all of the input, the value on each input that it is a
            function of, `[N]` or `[N, ...]`.

    Raises:
        TaskError: if a name is none of an edge, only some edges into heads name an input, or values are of a
            node without an edge.
    """
    found: dict[tuple[str, str], None] = {}
    for name in edges:
        if not is_edge(name):
            raise TaskError(f"{name!r} is no edge; write embed->m0, m0->a1.h0<v> or m1->logits")
        source, target = edge_ends(name)
        found[source, target] = None
        if is_head_input(target):
            found[target, destination_name(target)] = None
    into = {name: edge_ends(name)[1] for name in edges}
    split = [name for name, target in into.items() if is_head_input(target)]
    merged = [name for name, target in into.items() if is_head(target)]
    if split and merged:
        raise TaskError(f"{split[0]} names an input of a head, so that {merged[0]} has to name one, too")
    images = {str(EMBED), LOGITS, *(image for edge in found for image in edge)}
    if lost := sorted(set(values) - images):
        raise TaskError(f"there are values of {lost[0]}, which has no edge")
    claims = {image: NodeClaim(image, values.get(image)) for image in sorted(images)}
    return Hypothesis(claims, tuple(found), str(EMBED), LOGITS)


def made_by(written: str, tokens: np.ndarray, trace: Mapping[str, np.ndarray]) -> Hypothesis:
    """Returns what a user's function makes of some inputs.

    Args:
        written: `path/to/file.py:name`.
        tokens: the inputs, `[N, pos]`.
        trace: the program's variables on the inputs, `[N, pos]` each.

    Raises:
        TaskError: in one line with file and line, if it fails or returns anything else.
    """
    function = own_hypothesis(written)
    try:
        found = function(tokens, trace)
    except InterpBenchError:
        raise
    except Exception as error:
        raise TaskError(blamed(error) or f"{written}: {said(error)}") from error
    if not isinstance(found, Hypothesis):
        raise TaskError(f"{written} returns {type(found).__name__}, not a hypothesis; see circuit_hypothesis")
    return found


def own_hypothesis(text: str) -> Written:
    """Returns a hypothesis of the user's, whose file is imported.

    Args:
        text: `path/to/file.py:name`.

    Raises:
        InterpBenchError: if there is no such file or hypothesis.
    """
    if not is_own(text):
        raise TaskError(f"{shown(text)!r} names no file; write path/to/file.py:name")
    name = own_name(text, lambda: HYPOTHESES, lambda function: function.__module__, TaskError)
    return HYPOTHESES[name]
