"""Runs a discovery method in isolation: it can change neither the problem nor the state of the process."""

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
    """Runs a method on a copy of a problem, and checks the scores that it returns.

    Afterwards the working directory, environment variables, random generators, number of threads and torch's
    defaults are as they were.

    Args:
        method: the method.
        problem: the network and its inputs, which the method cannot change.
        name: the method's name in error messages; if empty, the name of its class.

    Raises:
        DiscoveryError: if the method raises an error or exits (the message gives file and line), alters the
            network or the inputs, returns anything but scores of this network, or does not support the
            network's architecture.
    """
    name = name or type(method).__name__
    if part := unsupported_part(method, problem.network):
        raise DiscoveryError(
            f"method {name} does not support {part}, which this network has; use another method, such as eap"
        )
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
        raise DiscoveryError(f"method {name} alters {altered}; let it work on a copy")
    return _checked(scores, problem, name)


def _checked(scores: Any, problem: Problem, name: str) -> Scores:
    """Returns a copy of a method's scores, after checking their type, shape, cost and numbers."""
    if not isinstance(scores, Scores):
        raise DiscoveryError(f"method {name} returns {type(scores).__name__} instead of Scores")
    graph, cost = problem.graph, scores.cost
    if scores.edges.shape != graph.legal.shape or type(cost) is not Cost:
        raise DiscoveryError(
            f"method {name} returns Scores of another network's graph, or without a Cost: edges have shape "
            f"{scores.edges.shape} and should have {graph.legal.shape}"
        )
    if not all(type(value) is int and value >= 0 for value in vars(cost).values()):
        raise DiscoveryError(f"method {name} returns a Cost whose numbers of passes are {vars(cost)}")
    if any(x is not None and x.dtype.kind not in "fiub" for x in (scores.edges, scores.own_nodes)):
        raise DiscoveryError(f"method {name} returns scores of type {scores.edges.dtype}, not numbers")
    try:
        nodes = None if scores.own_nodes is None else np.array(scores.own_nodes, np.float64)
        return Scores(graph, np.array(scores.edges, np.float64), nodes, cost, scores.circuits)
    except (TypeError, ValueError) as error:
        raise DiscoveryError(f"method {name} returns invalid scores: {error}") from None


def _tensors(problem: Problem) -> dict[str, Tensor]:
    """Returns the network's weights and the inputs, by their names in error messages."""
    weights = {f"the network's {name}": value for name, value in problem.network.state_dict().items()}
    inputs = {"the clean inputs": problem.clean, "the corrupted inputs": problem.corrupted}
    return {**weights, **inputs, "which positions are scored": problem.scored}


def _contents(problem: Problem) -> dict[str, tuple[str, bytes]]:
    """Returns the type and shape, and the contents as bytes, of each tensor of a problem."""
    return {
        name: (f"{value.dtype} {list(value.shape)}", value.detach().cpu().contiguous().numpy().tobytes())
        for name, value in _tensors(problem).items()
    }


def _altered(before: dict[str, tuple[str, bytes]], problem: Problem) -> str | None:
    """Returns the name of the first tensor that differs from `before`, or None if none does."""
    now = _contents(problem)
    return next((name for name, content in before.items() if now.get(name) != content), None)


def _put_back(before: dict[str, tuple[str, bytes]], problem: Problem) -> None:
    """Restores the tensors of a problem from their contents `before`."""
    with torch.no_grad():
        for name, value in _tensors(problem).items():
            array = np.frombuffer(bytearray(before[name][1]), value.detach().cpu().numpy().dtype)
            value.copy_(torch.from_numpy(array).view(value.shape))
