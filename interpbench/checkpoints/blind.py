"""The format of blind problems: a network and its data without the answer, and a commitment to the answer.

The *bundle* is a folder that can be given away. The *key*, one file, is kept back: the truth with a random
salt. The bundle holds the key's SHA-256: once the bundle is out, the truth can no longer be changed, nor can
a guess at it be checked. The SHA-256 of `problem.json`, which holds those of all other files, is the id of
the problem.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import numpy as np
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass
from safetensors.numpy import save

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import DATA, MOST_DATA, WEIGHTS, is_ours
from interpbench.checkpoints.record import ModelRecord, check_size, most_weights_bytes, read_numbered
from interpbench.checkpoints.tensor_files import read_pair_arrays, read_weight_arrays
from interpbench.circuits.ground_truth import Truth, TruthNames
from interpbench.core.config import STRICT, Count, Sha256, TaskName, checked
from interpbench.core.errors import CheckpointError, InterpBenchError
from interpbench.core.files import MOST_JSON, check_writable, read_bytes, sha256, write_bytes
from interpbench.core.text import shown
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.lens_settings import settings_of

if TYPE_CHECKING:
    from interpbench.tasks.problem import Problem

FORMAT = 1
PROBLEM, CONFIG, GUIDE = "problem.json", "config.json", "README.md"
CONTENTS = (WEIGHTS, CONFIG, DATA, GUIDE)
METRICS = {
    "kl": "of a run from the clean run, at the scored positions: Kullback-Leibler divergence of the "
    "output distributions, or the squared difference of a numerical output",
    "logit_diff": "logit of the answer to the corrupted input less that of the answer to the clean input, "
    "where these differ; of a numerical output the difference, signed towards the corrupted answer",
}
T = TypeVar("T")


@dataclass(frozen=True, config=STRICT)
class ProblemRecord:
    """What `problem.json` says.

    Attributes:
        format: version of this format.
        shape: the network's shape.
        pairs: how many clean and corrupted inputs there are.
        edges: how many scores an answer has.
        metrics: what a method may measure; the truth does not depend on which.
        commitment: SHA-256 of the key.
        files: SHA-256 of each other file.
    """

    format: int
    shape: TransformerConfig
    pairs: Count
    edges: Count
    metrics: dict[str, str]
    commitment: Sha256
    files: dict[str, Sha256]


@dataclass(frozen=True, config=STRICT)
class Key:
    """What the holder keeps: the answer, what it is the answer to, and a salt against guessing.

    Attributes:
        format: version of this format.
        salt: 256 random bits, as 64 hexadecimal digits.
        task: the program's name.
        model: SHA-256 of the weights in the bundle.
        data: SHA-256 of the data in the bundle.
        truth: as in a checkpoint's record.
    """

    format: int
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    task: TaskName
    model: Sha256
    data: Sha256
    truth: TruthNames


class WrittenProblem(NamedTuple):
    """A blind problem that was written: its folder, and its id."""

    folder: Path
    id: str


def key_path(folder: Path) -> Path:
    """Returns where a problem's key is, unless it was moved: beside the folder."""
    return folder.with_name(f"{folder.name}.key.json")


def problem_id(folder: Path) -> str:
    """Returns the problem's id, the SHA-256 of `problem.json`."""
    return sha256(read_bytes(folder / PROBLEM, MOST_JSON, CheckpointError))


def check_free(folder: Path | None) -> Path | None:
    """Returns a folder that a problem can be written to, as it is or, if it is called `.`, by its whole path.

    Raises:
        InterpBenchError: if it is there and not empty, or its key is, or it cannot be written.
    """
    if folder is None:
        return None
    folder = folder if folder.name else folder.resolve()
    try:
        taken = folder.name and (key_path(folder).exists() or folder.is_file() or any(folder.glob("*")))
    except OSError as error:
        raise InterpBenchError(f"cannot write {shown(folder)}: {error.strerror}") from None
    if taken or not folder.name:
        raise InterpBenchError(f"{folder} is there already; a problem is written to a folder of its own")
    check_writable(folder.parent)
    return folder


class _Source(NamedTuple):
    """What a problem is made of: a checkpoint's record, weights and pairs of inputs."""

    record: ModelRecord
    weights: Mapping[str, np.ndarray]
    pairs: Mapping[str, np.ndarray]


def _source(place: Path) -> _Source:
    """Reads a checkpoint as arrays; one of the published files takes torch.

    Raises:
        CheckpointError: if it is damaged, or has no pairs of inputs.
    """
    if is_ours(place):
        record, path = check_files(place), place / WEIGHTS
        weights = read_weight_arrays(
            read_bytes(path, most_weights_bytes(record.shape), CheckpointError), path
        )
        return _Source(record, weights, read_pair_arrays(place / DATA, record.shape))
    from interpbench.checkpoints.load import load_checkpoint, load_pairs

    loaded = load_checkpoint(place)
    state = {name: value.detach().cpu().numpy() for name, value in loaded.network.state_dict().items()}
    return _Source(loaded.record, state, {k: v.numpy() for k, v in asdict(load_pairs(place)).items()})


def write_problem(place: Path, folder: Path | None = None) -> WrittenProblem:
    """Writes a checkpoint as a blind problem and, beside the folder, the key, which no other user may read.

    Of the vocabulary only token ids go into the bundle, and of the program nothing but its data.

    Args:
        place: the checkpoint's folder, with its stored pairs of inputs.
        folder: where to write the problem; None for a folder in `runs/problems` that is called by the
            commitment.

    Raises:
        InterpBenchError: if the folder is there and not empty, or the checkpoint is damaged or has no data.
    """
    record, weights, pairs = _source(place)
    folder = check_free(folder)
    cfg = record.shape
    guide = Template(Path(__file__).with_name("blind.md").read_text())
    files = {
        WEIGHTS: save(_contiguous(weights)),
        CONFIG: _json(settings_of(cfg)),
        DATA: save(_contiguous(pairs)),
        GUIDE: guide.substitute(edges=len(cfg.graph.edges), **asdict(cfg)).encode(),
    }
    hashes = {name: sha256(data) for name, data in files.items()}
    salt = secrets.token_hex(32)  # the one draw that must not be repeatable
    key = _json(asdict(Key(FORMAT, salt, record.task, hashes[WEIGHTS], hashes[DATA], record.truth)))
    folder = check_free(folder or Path("runs/problems") / f"problem-{sha256(key)[:8]}")
    assert folder is not None
    count = len(pairs["clean"])
    made = ProblemRecord(FORMAT, cfg, count, len(cfg.graph.edges), METRICS, sha256(key), hashes)
    files[PROBLEM] = _json(TypeAdapter(ProblemRecord).dump_python(made))
    for name, data in files.items():
        write_bytes(folder / name, data)
    write_bytes(key_path(folder), key, 0o600)
    return WrittenProblem(folder, sha256(files[PROBLEM]))


def read_problem(folder: Path) -> ProblemRecord:
    """Reads `problem.json` and checks that all files are there and unchanged.

    Raises:
        CheckpointError: in one line, if not.
    """
    path = folder / PROBLEM
    record = _converted(ProblemRecord, path)
    try:
        check_size(record.shape)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if set(record.files) != set(CONTENTS):
        raise CheckpointError(f"{path} does not list the files of a problem, {', '.join(CONTENTS)}")
    most = {WEIGHTS: most_weights_bytes(record.shape), DATA: MOST_DATA}
    for name in CONTENTS:
        if (
            sha256(read_bytes(folder / name, most.get(name, MOST_JSON), CheckpointError))
            != record.files[name]
        ):
            raise CheckpointError(
                f"{folder / name} is damaged or changed: its SHA-256 is not that in {PROBLEM}"
            )
    return record


def load_problem(folder: str | Path, examples: int | None = None, seed: int = 0) -> "Problem":
    """Reads a blind problem as a discovery method sees it.

    Args:
        folder: the problem's.
        examples: how many pairs of inputs to use; None for all.
        seed: for methods that draw at random.

    Raises:
        CheckpointError: if a file is missing, damaged or changed.
    """
    from interpbench.checkpoints.format import read_network, read_pairs

    folder = Path(folder)
    record = read_problem(folder)
    pairs, path = read_pairs(folder / DATA, record.shape), folder / WEIGHTS
    network = read_network(
        read_bytes(path, most_weights_bytes(record.shape), CheckpointError), record.shape, path
    )
    return pairs.problem(network, examples, seed)


def open_key(path: Path, record: ProblemRecord) -> Key:
    """Reads the key to a problem.

    Raises:
        CheckpointError: if it is not the one that the problem was committed to.
    """
    if sha256(read_bytes(path, MOST_JSON, CheckpointError)) != record.commitment:
        raise CheckpointError(
            f"{path} is not the key that this problem was committed to: its SHA-256 differs"
        )
    key = _converted(Key, path)
    if (key.model, key.data) != (record.files[WEIGHTS], record.files[DATA]):
        raise CheckpointError(f"{path} is the key to another network, or to other data")
    try:
        Truth.from_json(record.shape.graph, key.truth).consistent()
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    return key


def _converted(kind: type[T], path: Path) -> T:
    """Reads JSON as a record of a format that is known."""
    return checked(kind, read_numbered(path, FORMAT, "part of a blind problem"), path, CheckpointError)


def _contiguous(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()
