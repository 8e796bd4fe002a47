"""How a comparison talks to a worker: a folder with a problem, and lines of JSON."""

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
    """One agreement.

    Attributes:
        method: which method, with the settings that matter.
        compared: how many numbers, edges or nodes; 0 where there is nothing to compare.
        agreement: in words, with the figure: `largest difference 3e-7 of 0.91`.
        agrees: whether this is agreement; None where none is claimed, and the figure says how far two rules
            are apart.
    """

    method: str
    compared: int
    agreement: str
    agrees: bool | None


def edges_of(graph: Graph) -> list[Edge]:
    """Returns the legal edges in the order in which `scores.edges[graph.legal]` has them."""
    return [Edge(graph.nodes[w], graph.readers[r]) for r, w in np.argwhere(graph.legal).tolist()]


def values(graph: Graph, named: dict[str, float]) -> np.ndarray:
    """Returns numbers by EAP-IG's names of edges in the order of `edges_of`."""
    return np.array([named[eap_name(edge)] for edge in edges_of(graph)])


def close(method: str, ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-4) -> Row:
    """Returns the row of two arrays that should be the same numbers, within a share of the largest."""
    size, difference = float(np.abs(theirs).max()), float(np.abs(ours - theirs).max())
    said = f"largest difference {difference:.1e} of {size:.2g}"
    return Row(method, ours.size, said, difference <= tolerance * max(size, 1e-12))


def write_problem(problem: Problem, folder: Path) -> None:
    """Writes the weights as a `HookedTransformer` reads them, and `problem.safetensors`.

    That has token ids `clean` and `corrupted [B, T]`, `scored [B, T]` (the positions whose output counts),
    and the network's arg-max `answer` and `wrong [B, T]` on the clean and on the corrupted inputs.
    """
    save_hooked(problem.network, folder)
    with torch.no_grad():
        answer, wrong = (problem.network(tokens).argmax(-1) for tokens in (problem.clean, problem.corrupted))
    inputs = {"clean": problem.clean, "corrupted": problem.corrupted, "answer": answer, "wrong": wrong}
    tensors = {name: value.cpu().contiguous() for name, value in inputs.items()}
    save_file({**tensors, "scored": problem.scored.T.cpu().contiguous()}, folder / "problem.safetensors")


class Worker:
    """A script in another environment that is asked, and answers, in lines of JSON; and a folder for it.

    Args:
        python: of the environment.
        script: the worker.
        arguments: what it gets after the folder.
        prepare: writes what it needs into the folder.
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
        """Asks, and returns the answer."""
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
    """A process in which the published code works on a problem.

    Args:
        python: of the environment that has what the code needs.
        worker: the script's name in this folder.
        problem: what it is run on.
        paths: folders that the worker imports the published code from.
    """

    def __init__(self, python: str, worker: str, problem: Problem, paths: Sequence[Path]):
        script = Path(__file__).with_name(worker)
        super().__init__(
            python, script, [str(path) for path in paths], lambda folder: write_problem(problem, folder)
        )

    def ask(self, what: str, **settings: Any) -> Any:
        """Returns what the worker's function of that name answers."""
        return self.send(what=what, **settings)
