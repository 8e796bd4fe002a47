"""Numbers and names as people read them: the same in tables, legends and reports."""

import math
from collections.abc import Sequence

from interpbench.scoring.evaluation_record import EvaluationRecord
from interpbench.scoring.results import LevelScores

NOTHING = "\u2013"
LEVEL_NAMES = {"node": "nodes", "head_edge": "head edges", "qkv_edge": "q/k/v edges"}


def number(value: float | None, digits: int = 3) -> str:
    """Formats a number; None becomes a dash."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def share(value: float, digits: int = 4) -> str:
    """Formats a rate, rounded down, so that only what is 1 reads as 1."""
    return "1" if value == 1 else f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


def auroc_ap(curve: LevelScores | None) -> str:
    """Formats AUROC and average precision, or one dash where there is nothing to score."""
    if curve is None or curve.auroc is None:
        return NOTHING
    return f"{number(curve.auroc)} / {number(curve.average_precision)}"


def task_labels(records: Sequence[EvaluationRecord]) -> list[str]:
    """Returns the task of each record, with its network's first digits where a task has several networks."""
    networks: dict[str, set[str]] = {}
    for record in records:
        networks.setdefault(record.task, set()).add(record.checkpoint)
    return [
        f"{record.task} {record.checkpoint[:6]}" if len(networks[record.task]) > 1 else record.task
        for record in records
    ]


def method_labels(records: Sequence[EvaluationRecord], seeds: bool = True) -> list[str]:
    """Names the method of each record, with those settings in which records of one method differ.

    Structural scores, in which allowed counts as required, are always named so.

    Args:
        records: the records.
        seeds: whether the seed is such a setting.
    """

    def details(record: EvaluationRecord) -> dict[str, object]:
        seed = {"seed": record.seed} if seeds else {}
        return {**record.settings, **seed}

    labels: list[str] = []
    for record in records:
        others = [details(other) for other in records if other.method == record.method]
        mine = details(record)
        varying = [key for key in mine if any(repr(o.get(key)) != repr(mine[key]) for o in others)]
        structural = ["structural"] if record.structural else []
        labels.append(" ".join([record.method, *structural, *(f"{key}={mine[key]}" for key in varying)]))
    return labels
