"""The index of a repository of models, `index.json`: every file's size and hash, and what grade it claims.

What it says is checked before it is used: a name in it becomes part of a path, a size is what a download
may take. A grade in it is a claim; once the files are here, their certificate says which one it is.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.certificate_file import (
    ForeignCertificateError,
    OldCertificateError,
    check_files,
    read_certificate,
)
from interpbench.checkpoints.checkpoint_files import CERTIFICATE, FILES
from interpbench.circuits.grades import GRADES, Grade, Standard, grade, in_words, said_of
from interpbench.core.config import STRICT, Settings, Sha256, Share, Steps, TaskName, checked
from interpbench.core.errors import CheckpointError, HubError, InterpBenchError
from interpbench.core.files import MOST_RECORD, read_bytes, read_json, reason, sha256
from interpbench.core.text import shown

FORMAT = 2
INDEX = "index.json"
DAMAGED, OLD, FOREIGN = "damaged", "old certificate", "another model's certificate"
"""What is said instead of a grade where a file, or the certificate alone, is not what it should be."""
MOST_BYTES = 1 << 33
"""The largest file that an index may name."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,=%\[\]-]{0,199}")


@dataclass(frozen=True, config=STRICT)
class IndexedFile:
    """Size in bytes and SHA-256 of a file."""

    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]
    sha256: Sha256


@dataclass(frozen=True, config=STRICT)
class IndexedModel:
    """What the index of a repository of models says about one of them, and about its certificate.

    Attributes:
        task: the name of its task.
        legacy_id: the published number of the task; None for none.
        kind: where the weights come from.
        files: name of a file to its size and SHA-256.
        grade: the highest grade that the certificate reaches; None if it reaches none, or if the model has no
            certificate.
        all_pairs: whether the certificate ran all pairs of inputs, and not a random draw of them; None
            without a certificate.
        target: the share of rows that have to be right for the grade, by the standard that gave it; None
            without a certificate.
        positions: whether that share is also reached if a variable is swapped at a single position; None if
            that was not measured.
    """

    task: TaskName
    legacy_id: Steps | None
    kind: Literal["trained", "compiled", "published"]
    files: dict[str, IndexedFile]
    grade: Grade | None
    all_pairs: bool | None
    target: Share | None
    positions: bool | None

    @property
    def size(self) -> int:
        """The bytes of all its files."""
        return sum(file.size for file in self.files.values())

    @property
    def claim(self) -> str:
        """The claimed grade, in words."""
        if self.all_pairs is None or self.target is None:
            return said_of(None)
        return in_words(self.grade, self.all_pairs, self.target, self.positions)


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

    def to_json(self) -> Settings:
        """Returns what `read_index` reads."""
        return asdict(self)


def standing(folder: Path) -> str:
    """Returns the grade of a checkpoint of ours in words, or what is wrong with its files."""
    try:
        return said_of(read_certificate(folder / CERTIFICATE, check_files(folder, certificate=False)))
    except OldCertificateError:
        return OLD
    except ForeignCertificateError:
        return FOREIGN
    except InterpBenchError:
        return DAMAGED


def check_grade(folder: Path, least: Grade | None) -> None:
    """Refuses a checkpoint of ours whose certificate does not reach a grade; None asks for no certificate.

    Raises:
        CheckpointError: one line, which says what is missing; or if a file is damaged.
    """
    record = check_files(folder, certificate=False)
    try:
        certificate = read_certificate(folder / CERTIFICATE, record)
    except OldCertificateError:
        if least is not None:
            raise
        return
    if least is None or (certificate is not None and grade(certificate).reaches(least)):
        return
    if certificate is None:
        makes = f"`interpbench certify {shown(folder)} --save` makes one"
        raise CheckpointError(f"{folder} has no certificate; {makes}, --grade none goes without")
    verdict = grade(certificate)
    others = len(missed := verdict.missed(least)) - 1
    more = f" and {others:,} more" if others else ""
    reached = f"{least}, only {said_of(certificate)}" if verdict.grade else f"even {GRADES[0]}"
    raise CheckpointError(
        f"{folder} does not reach {reached}: {missed[0]}{more}; --grade {verdict.grade or 'none'} takes it"
    )


def read_index(path: Path) -> Index:
    """Reads and checks an index.

    Raises:
        HubError: one line, if it is damaged, of a newer format, or names what could leave its folder.
    """
    data = read_json(path, HubError, 2 * MOST_RECORD)
    number = data.get("format") if isinstance(data, dict) else None
    if isinstance(number, int) and number != FORMAT:
        advice = "upgrade interpbench" if number > FORMAT else "its models have to be published anew"
        raise HubError(f"{path} has format {shown(number)}; this version reads {FORMAT}: {advice}")
    index = checked(Index, data, path, HubError)
    for name in (*index.models, *(file for model in index.models.values() for file in model.files)):
        if not NAME.fullmatch(name) or ".." in name:
            raise HubError(f"{path} is damaged: {shown(name)!r} is not the name of a model or a file")
    return index


def indexed(folder: Path, more: Mapping[str, bytes] | None = None) -> IndexedModel:
    """Returns the entry of a checkpoint folder, with files that are not in it yet.

    Raises:
        CheckpointError: if a file is damaged, or the certificate is of other weights.
    """
    record = check_files(folder)
    contents = {
        name: read_bytes(folder / name, MOST_BYTES, CheckpointError)
        for name in FILES
        if (folder / name).is_file()
    }
    files = {
        name: IndexedFile(len(data), sha256(data)) for name, data in {**contents, **(more or {})}.items()
    }
    with contextlib.suppress(OldCertificateError):
        if (certificate := read_certificate(folder / CERTIFICATE, record)) is not None:
            standard, verdict = Standard(), grade(certificate)
            claim = (verdict.grade, certificate.all_pairs, standard.target, verdict.positions)
            return IndexedModel(record.task, record.legacy_id, record.kind, files, *claim)
    return IndexedModel(record.task, record.legacy_id, record.kind, files, None, None, None, None)


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
