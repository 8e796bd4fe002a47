"""The exchange of a comparison with its worker: a folder that holds the problem, and lines of JSON."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from safetensors.torch import save_file

from interpbench.checkpoints.hooked import save_hooked
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import Edge, eap_name
from interpbench.tasks.problem import Problem


@dataclass(frozen=True)
class Row:
    """The result of a comparison.

    Attributes:
        method: the name of the method, with the settings that matter.
        compared: the number of numbers, edges or nodes that were compared; 0 if there were none.
        agreement: the agreement in words, such as `largest difference 3e-7 of 0.91`.
        agrees: whether the two agree; None if they need not, because they follow different rules.
    """

    method: str
    compared: int
    agreement: str
    agrees: bool | None


def edges_of(graph: Graph) -> list[Edge]:
    """Returns the edges in the order of `scores.edges[graph.legal]`."""
    return [Edge(graph.nodes[w], graph.readers[r]) for r, w in np.argwhere(graph.legal).tolist()]


def values(graph: Graph, named: dict[str, float]) -> np.ndarray:
    """Returns the numbers of edges, which are given by EAP-IG's names, in the order of `edges_of`."""
    return np.array([named[eap_name(edge)] for edge in edges_of(graph)])


def close(method: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-4) -> Row:
    """Returns the row of two arrays that should be equal.

    Args:
        method: the name of the method.
        ours: the numbers of this project.
        theirs: the numbers of the published code.
        tolerance: the largest difference that counts as equal, as a share of the largest number.
    """
    size, difference = float(np.abs(theirs).max()), float(np.abs(ours - theirs).max())
    said = f"largest difference {difference:.1e} of {size:.2g}"
    return Row(method, ours.size, said, difference <= tolerance * max(size, 1e-12))


def write_problem(problem: Problem, folder: Path) -> None:
    """Writes the weights in the format of a `HookedTransformer`, and `problem.safetensors`.

    For B pairs and T positions, the latter holds the token ids `clean` and `corrupted`, `[B, T]`; the
    positions whose output counts, `scored`, `[B, T]`; and the arg-max of the network's output on clean and
    corrupted inputs, `answer` and `wrong`, `[B, T]`.
    """
    save_hooked(problem.network, folder)
    with torch.no_grad():
        answer, wrong = (problem.network(tokens).argmax(-1) for tokens in (problem.clean, problem.corrupted))
    inputs = {"clean": problem.clean, "corrupted": problem.corrupted, "answer": answer, "wrong": wrong}
    tensors = {name: value.cpu().contiguous() for name, value in inputs.items()}
    save_file({**tensors, "scored": problem.scored.T.cpu().contiguous()}, folder / "problem.safetensors")


class Worker:
    """A script in another environment that answers requests in lines of JSON, and has a folder of its own.

    Args:
        python: the Python of the environment.
        script: the script.
        arguments: the arguments of the script after the folder.
        prepare: writes the files that the script needs into the folder.
    """

    def __init__(self, python: str, script: Path, arguments: Sequence[str], prepare: Callable[[Path], None]):
        self.folder = tempfile.TemporaryDirectory()
        prepare(Path(self.folder.name))
        self.process = subprocess.Popen(
            [python, str(script), self.folder.name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": "", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        )

    def send(self, **request: Any) -> Any:
        """Sends a request and returns the answer."""
        assert self.process.stdin is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return self.read()

    def read(self) -> Any:
        """Returns the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the published code's process ended; its error is above")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()
        self.folder.cleanup()


class Published(Worker):
    """A process that runs published code on a problem.

    Args:
        python: the Python of the environment that has what the code needs.
        worker: the name of the worker's script in this folder.
        problem: the problem.
        paths: the folders from which the worker imports the published code.
    """

    def __init__(self, python: str, worker: str, problem: Problem, paths: Sequence[Path]):
        script = Path(__file__).with_name(worker)
        super().__init__(
            python, script, [str(path) for path in paths], lambda folder: write_problem(problem, folder)
        )

    def ask(self, what: str, **settings: Any) -> Any:
        """Returns the answer of the worker's function with the name `what`."""
        return self.send(what=what, **settings)
