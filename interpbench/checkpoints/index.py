"""The index of a repository of models, `index.json`: every file's size and hash, and what is certified.

What it says is checked before it is used: a name in it becomes part of a path, a size is what a download
may take.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.find import CERTIFICATE, RECORD
from interpbench.checkpoints.proof import read_proof
from interpbench.core.config import STRICT
from interpbench.core.errors import HubError
from interpbench.core.files import read_json, sha256

FORMAT = 1
INDEX = "index.json"
MOST_BYTES = 1 << 33
"""The largest file that an index may name."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")


@dataclass(frozen=True, config=STRICT)
class IndexedFile:
    """Size in bytes and SHA-256 of a file."""

    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, config=STRICT)
class IndexedModel:
    """One model: its task, its files by name, and the verdict of its certificate (None without one)."""

    task: str
    legacy_id: int | None
    kind: str
    files: dict[str, IndexedFile]
    certified: bool | None
    enumerated: bool | None = None
    pairs: int | None = None
    target: float | None = None

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
    data = read_json(path, HubError)
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise HubError(f"{path} has format {data['format']}; this version reads up to {FORMAT}: upgrade")
    try:
        index = TypeAdapter(Index).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise HubError(f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    for name in (*index.models, *(file for model in index.models.values() for file in model.files)):
        if not NAME.fullmatch(name) or ".." in name:
            raise HubError(f"{path} is damaged: {name[:99]!r} is not the name of a model or a file")
    return index


def indexed(folder: Path, more: Mapping[str, bytes] | None = None) -> IndexedModel:
    """Returns the entry of a checkpoint folder, with files that are not in it yet.

    Raises:
        CheckpointError: if its record or certificate is damaged.
    """
    from interpbench.checkpoints.format import FILES, read_record  # not above: it imports torch

    record = read_record(folder)
    contents = {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()}
    files = {
        name: IndexedFile(len(data), sha256(data)) for name, data in {**contents, **(more or {})}.items()
    }
    proof = read_proof(folder / CERTIFICATE) or {}
    verdict = {key: proof.get(key) for key in ("certified", "enumerated", "pairs", "target")}
    return IndexedModel(record.task, record.legacy_id, record.kind, files, **verdict)


def problem(path: Path, file: IndexedFile) -> str | None:
    """Returns what is wrong with a file, or None if it is the one of the index."""
    try:
        data = path.read_bytes() if path.stat().st_size == file.size else None
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if data is None:
        return f"has {path.stat().st_size:,} bytes instead of {file.size:,}"
    return (
        None if sha256(data) == file.sha256 else "is damaged or changed: its SHA-256 is not the indexed one"
    )


def files_of(model: IndexedModel) -> list[str]:
    """Returns its file names, the record last: a folder with a record is whole."""
    return sorted(model.files, key=lambda name: (name == RECORD, name))
