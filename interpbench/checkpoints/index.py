"""The index of a repository of models, `index.json`: every file's size and hash, and what is certified.

What it says is checked before it is used: a name in it becomes part of a path, a size is what a download
may take.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.find import CERTIFICATE, FILES, RECORD
from interpbench.checkpoints.proof import read_proof
from interpbench.checkpoints.record import read_record
from interpbench.core.config import STRICT, Sha256, Share, Steps, TaskName, checked
from interpbench.core.errors import CheckpointError, HubError, InterpBenchError
from interpbench.core.files import MOST_RECORD, read_bytes, read_json, reason, sha256
from interpbench.core.text import shown

FORMAT = 1
INDEX = "index.json"
DAMAGED = "damaged"
"""What is said instead of a verdict where a file is not what it should be."""
MOST_BYTES = 1 << 33
"""The largest file that an index may name."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")


@dataclass(frozen=True, config=STRICT)
class IndexedFile:
    """Size in bytes and SHA-256 of a file."""

    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    sha256: Sha256


@dataclass(frozen=True, config=STRICT)
class IndexedModel:
    """One model: its task, its files by name, and the verdict of its certificate (None without one)."""

    task: TaskName
    legacy_id: Steps | None
    kind: Literal["trained", "compiled", "published"]
    files: dict[str, IndexedFile]
    certified: bool | None
    enumerated: bool | None = None
    pairs: Steps | None = None
    target: Share | None = None

    @property
    def size(self) -> int:
        """The bytes of all its files."""
        return sum(file.size for file in self.files.values())


@dataclass(frozen=True, config=STRICT)
class Index:
    """All models of a repository, by the name of their folder."""

    format: int
    models: dict[str, IndexedModel]

    def name_of(self, text: str) -> str | None:
        """Returns the model that is meant by its name or published number, if there is one."""
        if text in self.models:
            return text
        numbers = (name for name, model in sorted(self.models.items()) if str(model.legacy_id) == text)
        return next(numbers, None) if text.isdigit() else None

    def with_models(self, models: Mapping[str, IndexedModel]) -> "Index":
        """Returns the index with more models, or newer ones, in the order of their names."""
        return Index(FORMAT, dict(sorted({**self.models, **models}.items())))

    def to_json(self) -> dict[str, Any]:
        """Returns what `read_index` reads."""
        return asdict(self)


def verdict(certificate: Mapping[str, Any] | None) -> str:
    """Returns what a certificate, or an entry of an index, says in a few words."""
    if certificate is None or certificate.get("certified") is None:
        return "none"
    if not certificate["certified"]:
        return "not certified"
    return (
        "certified, all pairs" if certificate["enumerated"] else f"certified, ≥ {certificate['target']:.1%}"
    )


def read_index(path: Path) -> Index:
    """Reads and checks an index.

    Raises:
        HubError: one line, if it is damaged, of a newer format, or names what could leave its folder.
    """
    data = read_json(path, HubError, 2 * MOST_RECORD)
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise HubError(
            f"{path} has format {shown(data['format'])}; this version reads up to {FORMAT}: upgrade"
        )
    index = checked(Index, data, path, HubError)
    for name in (*index.models, *(file for model in index.models.values() for file in model.files)):
        if not NAME.fullmatch(name) or ".." in name:
            raise HubError(f"{path} is damaged: {shown(name)!r} is not the name of a model or a file")
    return index


def indexed(folder: Path, more: Mapping[str, bytes] | None = None) -> IndexedModel:
    """Returns the entry of a checkpoint folder, with files that are not in it yet.

    Raises:
        CheckpointError: if its record or certificate is damaged.
    """
    record = read_record(folder)
    contents = {
        name: read_bytes(folder / name, MOST_BYTES, CheckpointError)
        for name in FILES
        if (folder / name).is_file()
    }
    files = {
        name: IndexedFile(len(data), sha256(data)) for name, data in {**contents, **(more or {})}.items()
    }
    proof = read_proof(folder / CERTIFICATE) or {}
    verdict = {key: proof.get(key) for key in ("certified", "enumerated", "pairs", "target")}
    return IndexedModel(record.task, record.legacy_id, record.kind, files, **verdict)


def problem(path: Path, file: IndexedFile) -> str | None:
    """Returns what is wrong with a file, or None if it is the one of the index."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        data = read_bytes(path, file.size)
    except (OSError, InterpBenchError) as error:
        return f"cannot be read: {reason(error)}"
    return (
        None if sha256(data) == file.sha256 else "is damaged or changed: its SHA-256 is not the indexed one"
    )


def files_of(model: IndexedModel) -> list[str]:
    """Returns its file names, the record last: a folder with a record is whole."""
    return sorted(model.files, key=lambda name: (name == RECORD, name))
