"""Runs a method so that whatever it does, nothing but its own scores can come of it."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interpbench.circuits.scores import Cost, Scores
from interpbench.core.errors import DiscoveryError, InterpBenchError
from interpbench.core.process import kept, package_state, restore
from interpbench.core.user_code import blamed, place_of
from interpbench.discovery.method import Method, unsupported_part
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
            network or the inputs, or returns anything but scores of this network; or if it has no rule for
            some part of the network's architecture.
    """
    name = name or type(method).__name__
    if there := unsupported_part(method, problem.network):
        raise DiscoveryError(f"method {name} has no rule for {there}, which this network has; eap has one")
    own, before = copy.deepcopy(problem), _contents(problem)
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


def _tensors(problem: Problem) -> dict[str, Tensor]:
    """Returns everything that a method is given, by what it is called."""
    weights = {f"the network's {name}": value for name, value in problem.network.state_dict().items()}
    inputs = {"the clean inputs": problem.clean, "the corrupted inputs": problem.corrupted}
    return {**weights, **inputs, "which positions are scored": problem.scored}


def _contents(problem: Problem) -> dict[str, tuple[str, bytes]]:
    """Returns kind and contents of all tensors, as bytes, which nobody can alter."""
    return {
        name: (f"{value.dtype} {list(value.shape)}", value.detach().cpu().contiguous().numpy().tobytes())
        for name, value in _tensors(problem).items()
    }


def _altered(before: dict[str, tuple[str, bytes]], problem: Problem) -> str | None:
    """Returns the first thing of which a problem differs from what it was, or None."""
    now = _contents(problem)
    return next((name for name, content in before.items() if now.get(name) != content), None)


def _put_back(before: dict[str, tuple[str, bytes]], problem: Problem) -> None:
    """Gives a problem what it had."""
    with torch.no_grad():
        for name, value in _tensors(problem).items():
            array = np.frombuffer(bytearray(before[name][1]), value.detach().cpu().numpy().dtype)
            value.copy_(torch.from_numpy(array).view(value.shape))
