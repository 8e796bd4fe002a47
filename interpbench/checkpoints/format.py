"""The checkpoint format: `model.safetensors`, `model.json`, `certificate.json`, `data.safetensors`.

Reading needs neither Tracr nor JAX: the record holds shape, vocabulary, alignment and truth, and the data
file the pairs of inputs that discovery methods are run on.
"""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from interpbench.checkpoints.find import CERTIFICATE, RECORD, published_weights
from interpbench.checkpoints.proof import read_proof
from interpbench.circuits.truth import Truth
from interpbench.core.config import STRICT
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_json, sha256, write_bytes, write_json
from interpbench.tasks.problem import Pairs
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

FORMAT = 1
WEIGHTS, DATA = "model.safetensors", "data.safetensors"
FILES = (WEIGHTS, RECORD, CERTIFICATE, DATA)
MOST_WEIGHTS, MOST_WRITERS = 1 << 30, 5_000
"""What a record may claim before anything is allocated for it."""
PACKAGES = ("interpbench", "torch", "numpy", "tracr-pypi", "transformer-lens")


@strict_dataclass(frozen=True, config=STRICT)
class ModelRecord:
    """What `model.json` says.

    Attributes:
        format: version of this format.
        task: name of the task; `legacy_id` is its published number.
        shape: the network's shape.
        vocabulary: the tokens in the order of their ids, BOS and PAD last.
        classes: the outputs in class order; None for a number.
        alignment: variable to node.
        truth: level to the names of required and allowed nodes or edges.
        training: the resolved settings; empty for compiled weights.
        versions: packages, Python and git commit.
        sha256: of the weights file.
    """

    format: int
    task: str
    legacy_id: int | None
    kind: str
    shape: TransformerConfig
    vocabulary: list[Any]
    classes: list[Any] | None
    alignment: dict[str, str]
    truth: dict[str, dict[str, list[str]]]
    training: dict[str, Any]
    versions: dict[str, str]
    seed: int
    steps: int
    seconds: float
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint."""

    model: Transformer
    record: ModelRecord
    certificate: dict[str, Any] | None
    folder: Path

    @property
    def task(self) -> str:
        """The task's name."""
        return self.record.task

    @property
    def truth(self) -> Truth:
        """The network's ground truth."""
        return Truth.from_json(self.record.shape.graph, self.record.truth)


def versions() -> dict[str, str]:
    """Returns the versions that matter for reproducing a model."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        found["commit"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        found["commit"] = "unknown"
    return found


def save_checkpoint(
    folder: Path,
    model: Transformer,
    record: Mapping[str, Any],
    certificate: Mapping[str, Any] | None,
    pairs: Pairs | None = None,
) -> None:
    """Writes a checkpoint; the record gets its format number and the hash of the weights."""
    if pairs is not None:
        write_bytes(folder / DATA, save_tensors(asdict(pairs)))
    weights = save_tensors(
        {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    )
    write_bytes(folder / WEIGHTS, weights)
    shape = TypeAdapter(TransformerConfig).dump_python(model.cfg)
    write_json(folder / RECORD, {"format": FORMAT, **record, "shape": shape, "sha256": sha256(weights)})
    if certificate is not None:
        write_json(folder / CERTIFICATE, certificate)


def load_pairs(folder: Path) -> Pairs:
    """Reads the pairs of inputs of a checkpoint.

    Raises:
        CheckpointError: if they are missing or damaged.
    """
    if not (folder / RECORD).is_file() and published_weights(folder) is not None:
        from interpbench.checkpoints.legacy import draw_published_pairs

        return draw_published_pairs(folder)
    return read_pairs(folder / DATA, read_record(folder).shape)


def read_pairs(path: Path, shape: TransformerConfig) -> Pairs:
    """Reads pairs of inputs for a network of this shape.

    Raises:
        CheckpointError: if they are missing or damaged.
    """
    try:
        pairs = Pairs(**load_tensors(path.read_bytes()))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}; data=fresh draws new pairs") from None
    except (SafetensorError, TypeError, ValueError):
        raise CheckpointError(f"{path} is damaged; data=fresh draws new pairs") from None
    good = pairs.clean.shape == pairs.corrupted.shape == pairs.scored.shape and pairs.clean.ndim == 2
    for tokens in (pairs.clean, pairs.corrupted):
        good = (
            good
            and tokens.dtype == torch.int64
            and 0 <= int(tokens.min()) <= int(tokens.max()) < shape.d_vocab
        )
    if not good or pairs.clean.shape[1] > shape.n_ctx:
        raise CheckpointError(f"{path} is damaged: its inputs are not ones of this network")
    return pairs


def load_checkpoint(folder: Path) -> Checkpoint:
    """Reads a checkpoint, ours or one of the published InterpBench files.

    Raises:
        CheckpointError: one line, if it is missing, damaged, truncated, foreign or of a newer format.
    """
    if not (folder / RECORD).is_file() and published_weights(folder) is not None:
        from interpbench.checkpoints.legacy import load_published

        return load_published(folder)
    record = read_record(folder)
    path = folder / WEIGHTS
    try:
        weights = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    if sha256(weights) != record.sha256:
        raise CheckpointError(f"{path} is damaged or changed: its SHA-256 is not the one in {RECORD}")
    model = network(weights, record.shape, path)
    return Checkpoint(model, record, read_proof(folder / CERTIFICATE), folder)


def network(weights: bytes, shape: TransformerConfig, path: Path) -> Transformer:
    """Returns the network with these weights, which were read from `path`.

    Raises:
        CheckpointError: if they are not of this shape.
    """
    try:
        model = Transformer(shape)
        model.load_state_dict(load_tensors(weights))
    except (SafetensorError, RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"{path} does not fit the shape that it should have: {reason}") from None
    return model.requires_grad_(False)


def read_numbered(path: Path, newest: int, what: str) -> dict[str, Any]:
    """Reads a JSON object that says its format.

    Raises:
        CheckpointError: one line, if it is not `what` it should be, or of a format after `newest`.
    """
    data = read_json(path, CheckpointError)
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise CheckpointError(f"{path} is not {what}")
    if data["format"] > newest:
        raise CheckpointError(
            f"{path} has format {data['format']}; this version reads up to {newest}: upgrade interpbench"
        )
    return data


def read_record(folder: Path) -> ModelRecord:
    """Reads and checks `model.json` alone."""
    path = folder / RECORD
    data = read_numbered(path, FORMAT, "a checkpoint of this project")
    try:
        record = TypeAdapter(ModelRecord).validate_python(data)
        check_size(record.shape)
        Truth.from_json(record.shape.graph, record.truth)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path} is damaged: {place}: {first['msg']}") from None
    except KeyError as error:
        raise CheckpointError(f"{path} is damaged: truth lacks {error}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    return record


def check_size(shape: TransformerConfig) -> None:
    """Refuses a shape that nothing should be allocated for.

    Raises:
        CheckpointError: if it is larger than any of this project's.
    """
    if shape.parameters > MOST_WEIGHTS or shape.n_layers * (shape.n_heads + 1) > MOST_WRITERS:
        raise CheckpointError(f"its shape, of {shape.parameters:,} weights, is not one of ours")
