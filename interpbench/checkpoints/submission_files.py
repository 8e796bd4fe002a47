"""The format of submissions: what one method found in a set of released models, a folder of two files.

`scores.safetensors` holds the scores of edges, an array for each model in the order of its graph's edges, and
`submission.json` says of which weights they are, what they were made from, and what they reach.
"""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from safetensors import SafetensorError
from safetensors.numpy import load, save

from interpbench.checkpoints.checkpoint_files import MOST_DATA
from interpbench.checkpoints.record import read_numbered
from interpbench.checkpoints.tensor_files import MOST_HEADER, check_header
from interpbench.core.config import STRICT, Amount, MethodName, Sha256, Share, checked
from interpbench.core.errors import CheckpointError, ConfigError
from interpbench.core.files import read_bytes, sha256, write_bytes
from interpbench.core.text import shown

FORMAT = 1
SUBMISSION, ENTRY_SCORES = "submission.json", "scores.safetensors"
ModelName = Annotated[str, Field(min_length=1, max_length=256)]
MOST_SAID = 200
"""The largest number of characters that an entrant may say of a method."""
A_LINE, AN_ADDRESS = r"^[^\r\n]*$", r"^(https://[A-Za-z0-9./_~%#?=&+@:-]{1,200})?$"
About = Annotated[str, Field(max_length=MOST_SAID, pattern=A_LINE)]
"""What an entrant says of a method, in one line."""
Link = Annotated[str, Field(pattern=AN_ADDRESS)]
"""Where a method's code or paper is; empty for nowhere."""


@dataclass(frozen=True, config=STRICT)
class EntryCost:
    """What a method cost on all models together.

    Attributes:
        seconds: the seconds of processors, or those that the entrant says.
        measured: whether they are those of the records of `evaluate.py`.
    """

    seconds: Amount
    measured: bool


@dataclass(frozen=True, config=STRICT)
class SubmissionRecord:
    """What `submission.json` says.

    Attributes:
        format: the version of this format.
        version: the version of InterpBench that scored the submission.
        name: what the method is called.
        about: what the entrant says of it.
        link: where its code or paper is.
        models: the SHA-256 of each model's weights, by the model's name.
        answers: the SHA-256 of each file that the scores were read from.
        scores: the SHA-256 of `scores.safetensors`.
        results: what the scores of each model reach, by metric.
        cost: what the method cost; None if nobody says.
    """

    format: int
    version: Annotated[str, Field(max_length=64)]
    name: MethodName
    about: About
    link: Link
    models: Annotated[dict[ModelName, Sha256], Field(min_length=1, max_length=10_000)]
    answers: dict[ModelName, Sha256]
    scores: Sha256
    results: dict[ModelName, dict[MethodName, Share]]
    cost: EntryCost | None = None

    @property
    def set_id(self) -> str:
        """The SHA-256 of the names of the models and their weights: which set it is a submission for."""
        return sha256(json.dumps(self.models, sort_keys=True).encode())


def check_words(about: str, link: str) -> None:
    """Refuses what an entrant says of a method if a submission cannot hold it.

    Raises:
        ConfigError: in one line.
    """
    if len(about) > MOST_SAID or not re.fullmatch(A_LINE, about):
        raise ConfigError(f"--about {shown(about)!r} is not one line of at most {MOST_SAID} characters")
    if not re.fullmatch(AN_ADDRESS, link):
        raise ConfigError(f"--link {shown(link)!r} is no address; it begins with https://")


def packed_scores(scores: dict[str, np.ndarray]) -> bytes:
    """Returns the scores of edges `[edge]` of each model as the bytes of a file."""
    return save({name: np.ascontiguousarray(values, np.float32) for name, values in sorted(scores.items())})


def write_submission(folder: Path, record: SubmissionRecord, scores: bytes) -> None:
    """Writes the two files of a submission.

    Args:
        folder: the folder of the submission.
        record: what it says.
        scores: the bytes of its file of scores.
    """
    write_bytes(folder / ENTRY_SCORES, scores)
    write_bytes(folder / SUBMISSION, (json.dumps(asdict(record), indent=1) + "\n").encode())


def read_submission(folder: Path) -> tuple[SubmissionRecord, dict[str, np.ndarray]]:
    """Reads a submission, and checks that it is whole.

    Returns:
        Its record, and the scores of edges `[edge]` of each model.

    Raises:
        CheckpointError: in one line, if it is not.
    """
    path = folder / SUBMISSION
    record = checked(SubmissionRecord, read_numbered(path, FORMAT, "a submission"), path, CheckpointError)
    if record.name != folder.name:
        raise CheckpointError(f"{path} is of {record.name}; its folder has to be called so, too")
    data = read_bytes(folder / ENTRY_SCORES, MOST_DATA, CheckpointError)
    if sha256(data) != record.scores:
        raise CheckpointError(f"{folder / ENTRY_SCORES} is not what {SUBMISSION} says: its SHA-256 differs")
    try:
        check_header(data, 16 * MOST_HEADER)
        scores = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{folder / ENTRY_SCORES} is damaged: {error}") from None
    for what, names in {"answers": record.answers, "results": record.results, "scores": scores}.items():
        if set(names) != set(record.models):
            raise CheckpointError(f"{path} is damaged: {what} are of other models than it lists")
    for name, values in scores.items():
        if values.dtype != np.float32 or values.ndim != 1 or not np.isfinite(values).all():
            raise CheckpointError(f"{folder / ENTRY_SCORES} is damaged: {name} is no list of finite scores")
    return record, scores
