"""Networks that do a task, in double precision, to scrub against their own program."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.causal.model import Trace
from interpbench.checkpoints.find import find_checkpoint
from interpbench.checkpoints.load import load_checkpoint
from interpbench.rasp.compile import compile_program
from interpbench.rasp.weights import compiled_network
from interpbench.runs.subject import subject_of
from interpbench.tasks.catalogue import get_task
from interpbench.transformer.model import Transformer


@dataclass(frozen=True)
class TaskNetwork:
    """A network of a task, on some inputs.

    Attributes:
        network: the network.
        alignment: the nodes of the program's variables.
        circuit: the edges of the program's circuit, bool `[R, W]`.
        tokens: token ids, `[N, T]`.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """

    network: Transformer
    alignment: Alignment
    circuit: np.ndarray
    tokens: torch.Tensor
    trace: Trace


def task_network(kind: str, rows: int, name: str = "hist") -> TaskNetwork:
    """Returns the released network of a task (`trained`), or that of its compiled program (`Tracr`)."""
    task = get_task(name)
    if kind == "trained":
        checkpoint = load_checkpoint(find_checkpoint(name), certificate=False)
        network, alignment = checkpoint.network, subject_of(checkpoint).alignment
        circuit = checkpoint.truth.circuit
    else:
        task = replace(task, alignment={})  # variables are where Tracr places them
        network = compiled_network(compile_program(task.program))
        alignment = align(task, network.cfg.graph)
        circuit = find_truth(alignment, pairs=500).circuit
    tokens = task.domain.draw(np.random.default_rng(0), rows)
    ids, trace = torch.from_numpy(task.token_ids(tokens)), task.causal_model.run(tokens)
    return TaskNetwork(network.double(), alignment, circuit, ids, trace)
