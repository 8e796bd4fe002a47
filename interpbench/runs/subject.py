"""What a checkpoint is to be measured against, which is the task's word and not the checkpoint's."""

from typing import NamedTuple

from interpbench.alignment.alignment import Alignment, align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.record import task_of
from interpbench.circuits.ground_truth import Truth
from interpbench.core.errors import CheckpointError
from interpbench.tasks.task import Task


class Subject(NamedTuple):
    """What a checkpoint is to be measured against; none of it is the checkpoint's word but the alignment.

    Attributes:
        task: the task, from the catalogue or the user's own file.
        alignment: which node carries each of its variables.
        truth: the states of nodes and edges, computed anew from the task.
    """

    task: Task
    alignment: Alignment
    truth: Truth


def subject_of(checkpoint: Checkpoint) -> Subject:
    """Returns the task of a checkpoint, and its truth with the checkpoint's alignment.

    Raises:
        CheckpointError: if the record says something else of any of these.
    """
    record, folder = checkpoint.record, checkpoint.folder
    task = task_of(record.task)
    if set(record.alignment) != set(task.causal_model.variables):
        raise CheckpointError(f"{folder}: its alignment does not name the variables of task {task.name}")
    alignment = align(task, record.shape.graph, record.alignment)
    truth = find_truth(alignment)
    if truth.to_json() != record.truth:
        raise CheckpointError(
            f"{folder}: its truth is not the one that task {task.name} has with this alignment"
        )
    return Subject(task, alignment, truth)
