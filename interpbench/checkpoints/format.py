"""The checkpoint format: `model.safetensors`, `model.json`, `certificate.json`, `data.safetensors`.

Reading needs neither Tracr nor JAX: the record holds shape, vocabulary, alignment and truth, and the data
file the pairs of inputs that discovery methods are run on.
"""

import platform
import subprocess
import warnings
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from interpbench.checkpoints.certificate_file import certificate_of, check_files, write_certificate
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, DATA, RECORD, WEIGHTS
from interpbench.checkpoints.record import FORMAT, ModelRecord, Provenance, most_weights_bytes
from interpbench.checkpoints.tensor_files import MOST_HEADER, check_header, packed_tokens, read_pair_arrays
from interpbench.circuits.certificate import Certificate, Identity
from interpbench.circuits.grades import Standard, Verdict, grade
from interpbench.circuits.ground_truth import Truth
from interpbench.circuits.naming import Node
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_bytes, sha256, write_bytes, write_json
from interpbench.core.shown_values import html_of
from interpbench.core.text import shown
from interpbench.tasks.problem import Pairs
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

PAIRS = 512
"""Pairs of inputs stored with a checkpoint, for discovery."""
PACKAGES = ("interpbench", "torch", "numpy", "tracr-pypi", "transformer-lens")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint.

    Attributes:
        network: the network, a torch module whose weights are frozen.
        record: what `model.json` says of it.
        certificate: what was measured of it; None without a certificate.
        folder: where it was loaded from.
    """

    network: Transformer
    record: ModelRecord
    certificate: Certificate | None
    folder: Path

    @property
    def model(self) -> Transformer:
        """The network, under its name in version 0.1.0."""
        warnings.warn("checkpoint.model is now checkpoint.network", DeprecationWarning, stacklevel=2)
        return self.network

    @property
    def task(self) -> str:
        """The task's name."""
        return self.record.task

    @property
    def truth(self) -> Truth:
        """The network's ground truth."""
        return self.record.read_truth

    @property
    def variables(self) -> dict[Node, tuple[str, ...]]:
        """The variables that each node but the embedding carries."""
        return self.record.variables

    def __repr__(self) -> str:
        shape, verdict = self.record.shape, self.verdict()
        grade = "no certificate" if verdict is None else f"certificate: {verdict.grade or 'no grade'}"
        edges = f"{len(shape.graph.edges):,} q/k/v edges, {len(self.truth.required)} required"
        size = f"{shape.n_layers} layers of {shape.n_heads} heads, {shape.d_model} wide"
        return f"Checkpoint {self.task}: {size}; {edges}; {grade}\n  in {self.folder}"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def verdict(self, standard: Standard | None = None) -> Verdict | None:
        """Returns what a reader with this standard makes of the certificate; None without one."""
        return None if self.certificate is None else grade(self.certificate, standard)


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
    network: Transformer,
    provenance: Provenance,
    certificate: Certificate | None,
    pairs: Pairs | None = None,
    task: str | None = None,
) -> Checkpoint:
    """Writes a checkpoint; its record is made of the network's shape, its weights' hash and its provenance.

    Args:
        folder: where to.
        network: the network.
        provenance: what it is for, and how it was made.
        certificate: what was measured, which is written with what it is of; None for none.
        pairs: inputs for discovery.
        task: SHA-256 of the task, which a certificate needs.

    Returns:
        What `read_checkpoint` would read: the network is a copy, whose weights are frozen and on the CPU.
    """
    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    weights, shape = save_tensors(_packed(state)), network.cfg
    known = {one.name: getattr(provenance, one.name) for one in fields(Provenance)}  # of a record, this much
    record = ModelRecord(**known, format=FORMAT, shape=shape, sha256=sha256(weights))
    if pairs is not None:
        arrays = {name: values.detach().cpu().numpy() for name, values in asdict(pairs).items()}
        small = {name: x if x.dtype == np.bool_ else packed_tokens(x) for name, x in arrays.items()}
        write_bytes(folder / DATA, save_arrays({name: np.ascontiguousarray(x) for name, x in small.items()}))
    write_bytes(folder / WEIGHTS, weights)
    made = TypeAdapter(Provenance).dump_python(provenance, mode="json")
    plain = TypeAdapter(TransformerConfig).dump_python(shape)
    write_json(folder / RECORD, {"format": FORMAT, **made, "shape": plain, "sha256": record.sha256})
    if certificate is not None:
        assert task is not None, "a certificate names its task"
        identity = Identity(record.sha256, record.read_truth.sha256, task)
        certificate = write_certificate(folder / CERTIFICATE, certificate, identity)
    return Checkpoint(read_network(weights, shape, folder / WEIGHTS), record, certificate, folder)


def _packed(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns weights in half precision if that holds all of them exactly, as it does after training."""
    half = {name: value.half() for name, value in state.items()}
    return half if all(torch.equal(half[name].float(), value) for name, value in state.items()) else state


def read_pairs(path: Path, shape: TransformerConfig) -> Pairs:
    """Reads pairs of inputs for a network of this shape.

    Raises:
        CheckpointError: if they are missing or damaged.
    """
    return Pairs(**{name: torch.tensor(array) for name, array in read_pair_arrays(path, shape).items()})


def read_checkpoint(folder: Path, certificate: bool = True) -> Checkpoint:
    """Reads a checkpoint of this project; see `load.load_checkpoint`."""
    record, path = check_files(folder, certificate=False), folder / WEIGHTS
    weights = read_bytes(path, most_weights_bytes(record.shape), CheckpointError)
    network = read_network(weights, record.shape, path)
    return Checkpoint(network, record, certificate_of(folder, record) if certificate else None, folder)


def read_network(weights: bytes, shape: TransformerConfig, path: Path) -> Transformer:
    """Returns the network with these weights.

    Args:
        weights: what a file of weights holds.
        shape: the network's shape.
        path: the file that they were read from, for messages.

    Raises:
        CheckpointError: if they are not of this shape, not in single or half precision, or not finite.
    """
    try:
        check_header(weights, 16 * MOST_HEADER)
        state = load_tensors(weights)
        for name, value in state.items():
            known = value.dtype in (torch.float32, torch.float16)
            if not known or not bool(value.isfinite().all()):
                kind = "not finite" if known else f"{value.dtype}, not torch.float32 or torch.float16"
                raise CheckpointError(f"{path} is damaged: {shown(name)} is {kind}")
        network = Transformer(shape)
        network.load_state_dict({name: value.float() for name, value in state.items()})
    except (SafetensorError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"{path} does not fit the shape that it should have: {reason}") from None
    return network.requires_grad_(False)
