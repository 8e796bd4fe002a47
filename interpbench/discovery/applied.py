"""Runs a method so that whatever it does, nothing but its own scores can come of it."""

import copy

import torch
from torch import Tensor

from interpbench.circuits.scores import Scores
from interpbench.core.errors import DiscoveryError, InterpBenchError
from interpbench.core.own import blamed, place_of
from interpbench.core.process import kept
from interpbench.discovery.method import Method
from interpbench.tasks.problem import Problem


def apply(method: Method, problem: Problem, name: str = "") -> Scores:
    """Runs a method on a copy of a problem, and checks what it leaves and what it returns.

    The process's folder, environment, random generators, threads and torch's defaults are put back after it.

    Args:
        method: the method.
        problem: what it is run on, which it cannot change.
        name: what to call it in errors; its class's name if left out.

    Raises:
        DiscoveryError: in one line that names it, if it raises or exits (with file and line), alters the
            network or the inputs, or returns anything but scores of this network.
    """
    name = name or type(method).__name__
    own = copy.deepcopy(problem)
    try:
        with kept(problem.seed):
            scores = method(own)
    except (KeyboardInterrupt, InterpBenchError):
        raise
    except BaseException as error:
        raise DiscoveryError(f"method {name} fails: {blamed(error) or place_of(error, __file__)}") from error
    if altered := _altered(problem, own):
        raise DiscoveryError(f"method {name} alters {altered}, and so what it measures; work on a copy")
    if not isinstance(scores, Scores):  # pyright: ignore[reportUnnecessaryIsInstance]  a user's method
        raise DiscoveryError(f"method {name} returns {type(scores).__name__}, not Scores")
    if scores.graph != problem.graph:
        raise DiscoveryError(f"method {name} returns scores of another network's graph")
    return scores


def _altered(before: Problem, after: Problem) -> str | None:
    """Returns what differs between a problem and its copy, or None."""
    for what in ("clean", "corrupted", "scored"):
        if not _same(getattr(before, what), getattr(after, what)):
            return f"the {what} inputs" if what != "scored" else "which positions are scored"
    ours, theirs = before.network.state_dict(), after.network.state_dict()
    for weights, value in ours.items():
        if weights not in theirs or not _same(value, theirs[weights]):
            return f"the network's {weights}"
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
