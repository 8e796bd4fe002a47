"""What is scrubbed: the program at all levels, a circuit of a file, and the features that refine claims."""

import logging
from pathlib import Path

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import Trace
from interpbench.checkpoints.format import Checkpoint
from interpbench.circuits.io.score_files import read_scores
from interpbench.circuits.scores import Scores
from interpbench.core.errors import ScoresError
from interpbench.core.files import read_json
from interpbench.scoring.evaluation_record import EvaluationRecord, is_record
from interpbench.scrubbing.hypothesis import Hypothesis
from interpbench.scrubbing.program_claims import PROGRAM_LEVELS, program_hypothesis, structure_hypothesis
from interpbench.tasks.task import Task

MANY = 8
"""The number of tokens whose counts are among the features that refine claims."""
log = logging.getLogger(__name__)


def hypotheses_of(
    alignment: Alignment, circuit: np.ndarray, found: np.ndarray | None, trace: Trace
) -> dict[str, Hypothesis]:
    """Returns the hypotheses of a program, or of a circuit alone, by name, the strongest last.

    Args:
        alignment: the nodes of the program's variables.
        circuit: the edges of the program's circuit, bool `[R, W]`.
        found: the edges of another circuit; None for the program.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """
    if found is not None:
        return {"circuit": structure_hypothesis(alignment.graph, found, split=True)}
    return {level: program_hypothesis(alignment, circuit, trace, level) for level in PROGRAM_LEVELS}


def number_nodes(alignment: Alignment) -> set[str]:
    """Returns the names of the nodes all of whose variables are numbers."""
    variables = alignment.task.causal_model.variables
    return {
        str(node)
        for node, names in alignment.aligned_nodes.items()
        if all(variables[name].values is None for name in names)
    }


def float_nodes(hypothesis: Hypothesis) -> set[str]:
    """Returns the names of the nodes of which a hypothesis has numbers with a fraction."""
    return {
        claim.image
        for claim in hypothesis.claims.values()
        if claim.values is not None and np.asarray(claim.values).dtype.kind == "f"
    }


def feature_bank(task: Task, tokens: np.ndarray, trace: Trace) -> dict[str, np.ndarray]:
    """Returns the features that refine claims, by name: all variables, and what inputs look like.

    Args:
        task: the task.
        tokens: the inputs, `[N, pos]`.
        trace: the program's variables on the inputs, `[N, pos]` each.
    """
    bank = {name: values for name, values in trace.items() if name != "tokens"}
    bank |= {f"token {place + 1}": tokens[:, place] for place in range(tokens.shape[1])}
    bank |= {
        f"number of {task.vocab[code]!r}": (tokens == code).sum(1)
        for code in range(min(len(task.vocab), MANY))
    }
    return bank


def best_edges(path: Path, checkpoint: Checkpoint, count: int) -> np.ndarray:
    """Returns the circuit of a file, or its best edges, bool `[R, W]`.

    Args:
        path: the file.
        checkpoint: the checkpoint that it is of.
        count: the number of edges, if the file has scores only.

    Raises:
        ScoresError: if the file cannot be read, or is the record of an evaluation of another network.
    """
    graph = checkpoint.network.cfg.graph
    read = read_scores(path, graph)
    _check_origin(path, checkpoint)
    if read.circuit is not None:
        return read.circuit & graph.legal
    return best_edges_of(read.scores, count)


def _check_origin(path: Path, checkpoint: Checkpoint) -> None:
    """Refuses the record of an evaluation of another network; says so where a file names no network."""
    task, weights = checkpoint.record.task, checkpoint.record.sha256
    if path.suffix.lower() != ".json" or not is_record(data := read_json(path, ScoresError)):
        log.warning("%s does not say of which network it is; its edges are taken for those of %s", path, task)
        return
    record = EvaluationRecord.from_json(data, path)
    if record.task != task:
        raise ScoresError(f"{path} is an evaluation on task {record.task}, and the network is of {task}")
    if not weights.startswith(record.checkpoint):
        raise ScoresError(
            f"{path} is of a network of {task} with other weights than {checkpoint.folder}; evaluate it anew"
        )


def best_edges_of(scores: Scores, count: int) -> np.ndarray:
    """Returns so many of the edges with the highest scores, bool `[R, W]`; of equal ones, the first."""
    legal = scores.graph.legal
    values = np.where(legal, scores.edges, -np.inf)
    chosen = np.argsort(-values, axis=None, kind="stable")[:count]
    return np.isin(np.arange(values.size), chosen).reshape(values.shape) & legal
