"""Groups of released models, by what their records say; see `tasks.groups`."""

from collections.abc import Mapping
from itertools import compress
from pathlib import Path

from interpbench.checkpoints.record import ModelRecord, read_record
from interpbench.core.errors import CheckpointError, ConfigError
from interpbench.tasks.groups import KINDS, Member, in_group


def member(record: ModelRecord) -> Member:
    """Returns what groups ask of a model."""
    return Member(record.task, lambda: record.classes is None, lambda: record.read_truth)


def kinds_of(record: ModelRecord) -> list[str]:
    """Returns which of `KINDS` a model is of."""
    known = member(record)
    return [kind for kind, holds in KINDS.items() if holds(known)]


def models_in(name: str, models: Mapping[str, Path]) -> list[Path]:
    """Returns the folders of the models of a group, in order.

    Args:
        name: the terms of the group, joined by +.
        models: the folders of all models, by name.

    Raises:
        CheckpointError: if a term is none, or no model is in the group.
    """
    members = [member(read_record(path)) for path in models.values()]
    try:
        return list(compress(models.values(), in_group(name, members, "models")))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
