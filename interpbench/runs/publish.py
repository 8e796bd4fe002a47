"""Publishes models: their folders, a card and a picture for each, and an index of all, in one commit."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from interpbench.checkpoints.checkpoint_files import CERTIFICATE, FILES
from interpbench.checkpoints.find import find_checkpoints
from interpbench.checkpoints.hub import SETTING, Repository, target_of
from interpbench.checkpoints.hub_transfer import MissingError
from interpbench.checkpoints.index import FORMAT, INDEX, MOST_BYTES, NAME, Index, check_grade, indexed
from interpbench.checkpoints.load import load_checkpoint, load_pairs
from interpbench.circuits.grades import RELEASED, Grade
from interpbench.core.errors import CheckpointError
from interpbench.core.files import read_bytes, write_bytes
from interpbench.reports.cards import CARD, PICTURE, model_card, picture, repository_card
from interpbench.runs.certify import check_task
from interpbench.runs.subject import subject_of

log = logging.getLogger(__name__)


def publish(
    names: Sequence[str],
    to: str,
    out: Path | None = None,
    create: bool = False,
    least: Grade | None = RELEASED,
) -> None:
    """Uploads models to a repository, or writes what would be uploaded to a folder.

    Args:
        names: what `find_checkpoints` takes; a run folder is published under its task's name.
        to: `owner/name`, or `owner/name@branch`.
        out: write the files here instead; no network is used.
        create: make the repository if there is none.
        least: the grade that each must reach by its certificate; None for any, or no certificate.

    Raises:
        InterpBenchError: if a model is damaged or does not reach the grade, its certificate or its truth is
            not that of its task, or the hub refuses.
    """
    repository = target_of(to)
    files: dict[str, bytes] = {}
    entries = {}
    for folder in dict.fromkeys(folder for name in names for folder in find_checkpoints(name)):
        check_grade(folder, least)
        checkpoint = load_checkpoint(folder)
        load_pairs(folder)
        name = checkpoint.task
        if name in entries:
            raise CheckpointError(f"two models of task {name}: publish one of them")
        if not NAME.fullmatch(name):
            raise CheckpointError(f"{name!r} cannot be the name of a published folder")
        subject = subject_of(checkpoint)
        task = subject.task
        if checkpoint.certificate is not None:
            check_task(folder / CERTIFICATE, checkpoint.certificate, subject, checkpoint.network)
        made = {CARD: model_card(checkpoint, task, name, str(repository)).encode()}
        made[PICTURE] = picture(checkpoint, task)
        entries[name] = indexed(folder, made)
        made |= {file: read_bytes(folder / file, MOST_BYTES) for file in FILES if (folder / file).is_file()}
        files |= {f"{name}/{file}": data for file, data in made.items()}
    index = (Index(FORMAT, {}) if out else _existing(repository)).with_models(entries)
    files[INDEX] = (json.dumps(index.to_json(), indent=1) + "\n").encode()
    files[CARD] = repository_card(index, repository.name).encode()
    if out:
        for path, data in files.items():
            write_bytes(out / path, data)
        log.info("wrote %d files to %s", len(files), out)
        return
    at = repository.upload(files, f"{', '.join(entries)}: models with certificates", create)
    log.info("published %d models; %s=%s downloads them", len(entries), SETTING, at)


def _existing(repository: Repository) -> Index:
    """Returns the index that is there already, or an empty one."""
    try:
        return repository.index(online=True)[0]
    except MissingError:
        return Index(FORMAT, {})
