"""Runs a method so that whatever it does, nothing but its own scores can come of it."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.errors import DiscoveryError, InterpBenchError
from interpbench.core.own import blamed, place_of
from interpbench.core.process import kept, package_state, restore
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
    own, before = copy.deepcopy(problem), copy.deepcopy(problem)
    kinds = package_state()
    try:
        with kept(problem.seed):
            scores = method(own)
    except (KeyboardInterrupt, InterpBenchError):
        raise
    except BaseException as error:
        raise DiscoveryError(f"method {name} fails: {blamed(error) or place_of(error, __file__)}") from error
    finally:
        changed = restore(kinds)
        original = _altered(before, problem)
        if original:
            _put_back(before, problem)
    if altered := changed or original or _altered(before, own):
        raise DiscoveryError(f"method {name} alters {altered}, and so what is measured; work on a copy")
    return _checked(scores, problem, name)


def _checked(scores: Any, problem: Problem, name: str) -> Scores:
    """Returns scores with copies of a method's numbers, which were checked anew."""
    if not isinstance(scores, Scores):
        raise DiscoveryError(f"method {name} returns {type(scores).__name__}, not Scores")
    graph, cost = problem.graph, scores.cost
    if scores.edges.shape != graph.legal.shape or type(cost) is not Cost:
        raise DiscoveryError(f"method {name} returns scores of another network's graph, or no Cost")
    if not all(type(value) is int and value >= 0 for value in vars(cost).values()):
        raise DiscoveryError(f"method {name} returns a cost that is no number of passes: {vars(cost)}")
    if any(x is not None and x.dtype.kind not in "fiub" for x in (scores.edges, scores.own_nodes)):
        raise DiscoveryError(f"method {name} returns no scores: they are {scores.edges.dtype}")
    try:
        nodes = None if scores.own_nodes is None else np.array(scores.own_nodes, np.float64)
        return Scores(graph, np.array(scores.edges, np.float64), nodes, cost, scores.circuits)
    except (TypeError, ValueError) as error:
        raise DiscoveryError(f"method {name} returns no scores: {error}") from None


def _put_back(before: Problem, after: Problem) -> None:
    """Gives a problem that was altered what it had."""
    for what in ("clean", "corrupted", "scored"):
        getattr(after, what).copy_(getattr(before, what))
    after.network.load_state_dict(before.network.state_dict())


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
