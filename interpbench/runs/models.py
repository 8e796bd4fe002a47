"""Lists models: what is here, in the cache, and on the hub, with certificates. Needs no torch."""

from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from interpbench.checkpoints.find import CERTIFICATE, RECORD, models_folder, released
from interpbench.checkpoints.hub import SETTING, home
from interpbench.checkpoints.index import IndexedModel, verdict
from interpbench.checkpoints.proof import read_proof
from interpbench.core.errors import HubError, InterpBenchError
from interpbench.core.files import read_json


class Listed(NamedTuple):
    """One line of the list."""

    name: str
    number: int | None
    where: str
    size: int
    certificate: str


def list_models(console: Console, hub: bool) -> None:
    """Prints all models; with `hub`, those on the hub too, which uses the network.

    Raises:
        InterpBenchError: if the hub is asked for and not set, or cannot be reached.
    """
    models = [_here(name, folder) for name, folder in released().items()]
    repository, notes = home(), list[str]()
    if repository is None:
        if hub:
            raise HubError(f"no repository of models is set; say {SETTING}=owner/name@revision")
    else:
        try:
            index, at = repository.index(online=hub)
            for name, model in index.models.items():
                models.append(_there(name, model, "cache" if at.has(name) else str(repository)))
        except HubError:
            if hub:
                raise
            notes.append(f"{repository} has more; --hub lists them")
    table = Table(title=f"{len(models)} models")
    for title in ("name", "id", "where", "size", "certificate"):
        table.add_column(
            title, justify="right" if title in ("id", "size") else "left", no_wrap=title == "name"
        )
    for model in models:
        number = "–" if model.number is None else str(model.number)
        table.add_row(model.name, number, model.where, f"{model.size / 1e3:,.0f} kB", model.certificate)
    console.print(table)
    for note in notes:
        console.print(note)


def _here(name: str, folder: Path) -> Listed:
    try:
        record: Any = read_json(folder / RECORD)
        said = verdict(read_proof(folder / CERTIFICATE)) if isinstance(record, dict) else "damaged"
    except InterpBenchError:
        record, said = {}, "damaged"
    number = record.get("legacy_id") if isinstance(record, dict) else None
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    return Listed(name, number, str(models_folder() / name), size, said)


def _there(name: str, model: IndexedModel, where: str) -> Listed:
    return Listed(name, model.legacy_id, where, model.size, verdict(vars(model)))
