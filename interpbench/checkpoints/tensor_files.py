"""Checks files of tensors before anything uses them, as numpy arrays. Needs no torch."""

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from interpbench.checkpoints.checkpoint_files import MOST_DATA
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_bytes
from interpbench.transformer.config import TransformerConfig

MOST_HEADER = 1 << 16
"""The longest list of tensors of a file of pairs, in bytes; that of weights is at most 16 times as long."""
TOKENS = (np.dtype(np.uint8), np.dtype(np.int16), np.dtype(np.int64))
"""The types of token ids in a file of pairs; the smallest that holds a vocabulary is written."""
PAIRS = {"clean": TOKENS, "corrupted": TOKENS, "scored": (np.dtype(np.bool_),)}
"""The arrays `[pair, position]` of a file of pairs, and of what types they may be."""


def packed_tokens(tokens: np.ndarray) -> np.ndarray:
    """Returns token ids in the smallest type of `TOKENS` that holds them all."""
    most = int(tokens.max(initial=0))
    return tokens.astype(next(kind for kind in TOKENS if most <= np.iinfo(kind).max))


def check_header(data: bytes, most: int) -> None:
    """Refuses a safetensors file that lists more tensors than it can need.

    Raises:
        ValueError: if its header is longer than `most` bytes.
    """
    if int.from_bytes(data[:8], "little") > most:
        raise ValueError(f"its header has more than {most:,} bytes")


def read_pair_arrays(path: Path, shape: TransformerConfig) -> dict[str, np.ndarray]:
    """Reads the pairs of inputs of a network of this shape: `clean`, `corrupted` (int64) and `scored`.

    Raises:
        CheckpointError: if the file is missing or damaged, or holds no pairs of this network.
    """
    data = read_bytes(path, MOST_DATA, CheckpointError)
    try:
        check_header(data, MOST_HEADER)
        arrays = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise CheckpointError(f"{path} is damaged; data=fresh draws new pairs") from None
    if wrong := _wrong_with(arrays, shape):
        raise CheckpointError(f"{path} is damaged: {wrong}; data=fresh draws new pairs")
    return {name: x if x.dtype == np.bool_ else x.astype(np.int64) for name, x in arrays.items()}


def _wrong_with(arrays: dict[str, np.ndarray], shape: TransformerConfig) -> str | None:
    """Returns why arrays are no pairs of inputs of this network, or None."""
    if arrays.keys() != PAIRS.keys():
        return f"it does not hold {', '.join(PAIRS)}"
    clean = arrays["clean"]
    for name, kinds in PAIRS.items():
        values = arrays[name]
        if values.dtype not in kinds:
            return f"{name} is {values.dtype}, not {kinds[-1]}"
        if values.ndim != 2 or not values.size or values.shape != clean.shape:
            return f"{name} has shape {list(values.shape)[:4]}, which is not [pairs, positions]"
        if values.dtype != np.bool_ and not 0 <= int(values.min()) <= int(values.max()) < shape.d_vocab:
            return f"{name} holds token ids that are not below {shape.d_vocab}"
    if clean.shape[1] > shape.n_ctx:
        return f"its inputs have {clean.shape[1]} positions, the network {shape.n_ctx}"
    return None if bool(arrays["scored"].any(1).all()) else "no position of some pair is scored"


def read_weight_arrays(data: bytes, path: Path) -> dict[str, np.ndarray]:
    """Returns the weights in a safetensors file as float32; whether they are all, it cannot tell.

    Args:
        data: the file's bytes.
        path: where they were read from, for the error.

    Raises:
        CheckpointError: if the file is damaged, or some weights are not finite, or in neither single nor half
            precision.
    """
    try:
        check_header(data, 16 * MOST_HEADER)
        arrays = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    for name, values in arrays.items():
        if values.dtype.name not in ("float32", "float16") or not np.isfinite(values).all():
            raise CheckpointError(f"{path} is damaged: {name} is not finite, or in neither known precision")
    return {name: values.astype(np.float32) for name, values in arrays.items()}
