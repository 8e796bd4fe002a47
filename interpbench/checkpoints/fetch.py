"""Downloads by address: a model of ours, or one of the published InterpBench, from any repository."""

import hashlib
import re
from pathlib import Path

from interpbench.checkpoints.checkpoint_files import is_checkpoint
from interpbench.checkpoints.hub import Repository, split
from interpbench.checkpoints.index import INDEX, MOST_BYTES
from interpbench.core.errors import HubError
from interpbench.core.files import read_bytes

PUBLISHED = ("ll_model*.pth", "ll_model_cfg*.pkl", "meta*.json", "edges.pkl")
ABOVE = ("ll_model_cfg.pkl", "interpbench_graph.json")
"""Files of MIB's variant that are one folder above its weights."""
GPT2 = Repository("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e")
VOCABULARY = "vocab.json"
"""Where GPT-2's token ids are, which the published IOI models read."""


def fetch(address: str, refresh: bool = False) -> Path:
    """Returns the folder of the model at `hf://owner/name[@revision]/folder`, in the cache.

    Without `refresh`, what is in the cache is used, and the network only if it is not.

    Raises:
        HubError: one line, if there is no such model, or it cannot be had.
    """
    repository, folder = split(address)
    if not re.fullmatch(r"[][\w.,=%/-]+", folder):
        raise HubError(f"{address!r} is not an address: {folder!r} is not the name of a folder")
    above = folder.rpartition("/")[0]
    patterns = [INDEX, *(f"{folder}/{name}" for name in PUBLISHED)]
    patterns += [f"{above}/{name}" if above else name for name in ABOVE]
    snapshot = None if refresh else _cached(repository, patterns, folder)
    if snapshot is None:
        snapshot = repository.snapshot(patterns, folder, online=True)
    at = Repository(repository.name, snapshot.name)
    if (snapshot / INDEX).is_file():
        return at.model(folder, refresh=refresh)
    path = snapshot / folder
    if not is_checkpoint(path):
        raise HubError(f"{at} has no model in {folder!r}")
    for file in (*path.iterdir(), *(path.parent / name for name in ABOVE)):
        if file.is_file():
            _verify(file, at)
    if folder.rpartition("/")[2].startswith("ioi"):
        _verify(GPT2.file(VOCABULARY, online=not GPT2.is_cached(VOCABULARY)), GPT2)
    return path


def _cached(repository: Repository, patterns: list[str], folder: str) -> Path | None:
    try:
        snapshot = repository.snapshot(patterns, folder, online=False)
    except HubError:
        return None
    return snapshot if (snapshot / INDEX).is_file() or is_checkpoint(snapshot / folder) else None


def _verify(file: Path, at: Repository) -> None:
    """Compares a file in the cache with the hash that the hub gave it, which is the name of its blob."""
    wanted, data = file.resolve().name, read_bytes(file, MOST_BYTES, HubError)
    if re.fullmatch(r"[0-9a-f]{64}", wanted):
        found = hashlib.sha256(data).hexdigest()
    elif re.fullmatch(r"[0-9a-f]{40}", wanted):  # as git names a file
        found = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    else:
        return  # a file system without links, where the hub's hash is not kept
    if found != wanted:
        raise HubError(f"{at}: {file} is damaged: delete it, and load it again")
