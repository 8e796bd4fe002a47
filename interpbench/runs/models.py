"""Lists models: what is here, in the cache, and on the hub, with their grades. Needs no torch."""

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from interpbench.checkpoints.cached_models import cached_models
from interpbench.checkpoints.checkpoint_files import (
    CERTIFICATE,
    PACKAGED,
    RECORD,
    WEIGHTS,
    all_released,
    in_regimes,
    is_ours,
    released,
    seeds,
)
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.hub import SETTING, Repository, home
from interpbench.checkpoints.index import DAMAGED, INDEX, IndexedModel, problem, standing
from interpbench.checkpoints.record import read_record
from interpbench.core.errors import ConfigError, HubError, InterpBenchError
from interpbench.core.files import write_text
from interpbench.core.text import printable, shown, terminal
from interpbench.reports.models_page import put, read_models, summary, tables

log = logging.getLogger(__name__)

UNREAD = "not read: interpbench certify"
"""What is said of the certificate of a published model, whose truth takes its task to know."""


class Listed(NamedTuple):
    """One line of the list.

    Attributes:
        name: the model's.
        number: the published number of its task; None for none.
        where: the folder or the repository that it is in.
        size: the bytes of all its files.
        grade: what its certificate reaches, in words.
    """

    name: str
    number: int | None
    where: str
    size: int
    grade: str


def list_models(console: Console, hub: bool, names: Sequence[str] = ()) -> None:
    """Prints all models; with `hub`, those on the hub too, which uses the network.

    Args:
        console: where to print.
        hub: whether to ask the hub.
        names: models or groups of them, which alone are listed.

    Raises:
        InterpBenchError: if the hub is asked for and not set, or cannot be reached; or a name is unknown.
    """
    if names:
        if hub:
            raise ConfigError(f"models {shown(names[0])} --hub: it lists all there is; leave out names")
        _print(console, _chosen(names))
        return
    folders, repository = {**released(), **in_regimes()}, home()
    models = [
        _here(name, folder, "this package" if PACKAGED in folder.parents else str(folder))
        for name, folder in folders.items()
    ]
    if repository is None and hub:
        raise HubError(f"no repository of models is set; say {SETTING}=owner/name@revision")
    note, snapshot = f"{SETTING}=owner/name@revision says where more can be had", None
    if repository is not None:
        note = f"{repository} has more; --hub lists them"
    if repository is not None and (hub or repository.is_cached(INDEX)):
        try:
            index, at = repository.index(online=hub)
            snapshot = at.file(INDEX, online=False).parent
            new = {name: model for name, model in index.models.items() if not _same(model, folders.get(name))}
            models += [_there(name, model, repository, snapshot) for name, model in new.items()]
            note = (
                f"{repository} has {len(index.models)}, {len(index.models) - len(new)} of them as in models/"
            )
        except HubError as error:
            if hub:
                raise
            note = str(error)
    for address, folder in cached_models():
        if snapshot is None or snapshot not in folder.parents:
            models.append(_here(folder.name, folder, f"cache: {address}"))
    _print(console, models)
    if others := seeds():
        note = f"{len(others)} of other seeds: interpbench models seeds; {note}"
    console.print(printable(note), soft_wrap=True, highlight=False, markup=False)


def _chosen(names: Sequence[str]) -> list[Listed]:
    """Returns the models that names and groups mean, each once, in order."""
    known = {folder: name for name, folder in all_released().items()}
    folders = dict.fromkeys(folder for name in names for folder in find_checkpoints(name))
    return [_here(known.get(folder, folder.name), folder, str(folder)) for folder in folders]


def _print(console: Console, models: Sequence[Listed]) -> None:
    table = Table(title=f"{len(models)} models")
    for title in ("name", "id", "where", "size", "grade"):
        justify = "right" if title in ("id", "size") else "left"
        table.add_column(title, justify=justify, no_wrap=title == "name", overflow="fold")
    for model in models:
        number = "–" if model.number is None else str(model.number)
        where = terminal(model.where)
        table.add_row(terminal(model.name), number, where, f"{model.size / 1e3:,.0f} kB", model.grade)
    console.print(table)


def pages() -> dict[Path, str]:
    """Returns what the pages that are made from the records of released models should be."""
    root = Path(__file__).resolve().parents[2]
    folder = root / "models"
    given = read_models(released(folder)), tuple(seeds(folder)), read_models(in_regimes(folder))
    made = {root / "docs" / "models.md": tables(*given), root / "README.md": summary(*given)}
    return {path: put(path.read_text(), text) for path, text in made.items()}


def write_pages() -> None:
    """Writes the pages that are not current.

    Raises:
        ConfigError: outside a checkout, which has no such pages.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "docs" / "models.md").is_file():
        raise ConfigError("models --write is for a checkout of the project: there is no docs/models.md here")
    for path, text in pages().items():
        if path.read_text() != text:
            write_text(path, text)
            log.info("wrote %s", path)


def _here(name: str, folder: Path, where: str) -> Listed:
    """A folder of ours, whose weights must be those of its record, or of the published layout."""
    number, said = int(name) if name.isdigit() and len(name) < 7 else None, "none"
    if is_ours(folder):
        said = standing(folder)
        with contextlib.suppress(InterpBenchError):
            number = read_record(folder).legacy_id
    elif (folder / CERTIFICATE).exists():
        said = UNREAD
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return Listed(name, number, where, size, said)


def _there(name: str, model: IndexedModel, repository: Repository, snapshot: Path) -> Listed:
    """An entry of the index, which claims a grade; files in the cache must be the indexed ones."""
    places = {snapshot / name / file: entry for file, entry in model.files.items()}
    cached = all(path.is_file() for path in places)
    damaged = cached and any(problem(path, entry) for path, entry in places.items())
    said = f"claims {model.claim}" if model.grade else model.claim
    if cached:
        said = DAMAGED if damaged else standing(snapshot / name)
    return Listed(name, model.legacy_id, "cache" if cached else str(repository), model.size, said)


def _same(model: IndexedModel, folder: Path | None) -> bool:
    """Returns whether a folder holds the model of an index."""
    files = {} if folder is None else {name: folder / name for name in (RECORD, WEIGHTS)}
    return bool(files) and all(
        name in model.files and problem(path, model.files[name]) is None for name, path in files.items()
    )
