"""Finds checkpoints by what a user calls them: in `models/`, on the disk, in the cache, on a hub."""

from pathlib import Path

from interpbench.checkpoints.certificate_file import check_files
from interpbench.checkpoints.checkpoint_files import (
    FILES,
    PACKAGED,
    RECORD,
    in_regimes,
    is_checkpoint,
    is_ours,
    models_folder,
    released,
    seeds,
)
from interpbench.checkpoints.fetch import fetch
from interpbench.checkpoints.hub import SETTING, home
from interpbench.checkpoints.model_groups import models_in
from interpbench.checkpoints.record import ModelRecord, read_record
from interpbench.core.errors import CheckpointError, did_you_mean
from interpbench.core.text import shown
from interpbench.tasks.catalogue import known_task
from interpbench.tasks.family import split_name, split_regimes
from interpbench.tasks.groups import KINDS, is_group
from interpbench.tasks.regimes.regime import regimes

ALL, SEEDS, REGIMES = "all", "seeds", "regimes"
"""All released models, one a task; those of other seeds; and those of tasks in regimes."""
HOW_TO_GET = f"with {SETTING}=owner/name, `interpbench download` gets models; `interpbench train` makes them"


def find_checkpoints(name: str, models: Path | None = None) -> list[Path]:
    """Returns the checkpoint folders that `name` means.

    The network is used only for an address (`hf://owner/name@revision/folder`), or a name that is neither
    here nor in the cache, if a repository of models is set (`hub.SETTING`).

    Args:
        name: `all` released models, one's name or published number, a group of them (`tasks/groups.py`), one
            of another seed (`all_equal/seed1`, or `seeds` for all of these), one of a task in a regime (by
            the task's name, or `regimes` for all of these), a checkpoint or run folder, a folder of several
            runs or of the published files, or an address.
        models: the folder of released models.

    Raises:
        CheckpointError: if there is none, with the nearest names; or it cannot be downloaded.
    """
    if name.startswith("hf://"):
        return [fetch(name)]
    available, living = released(models), in_regimes(models)
    several = {ALL: available, SEEDS: seeds(models), REGIMES: living}
    if found := _named(name, several, models or models_folder()):
        return found
    path = Path(name) if name and "\0" not in name else Path("no such folder")
    try:
        found = _below(path)
    except OSError as error:
        raise CheckpointError(f"no checkpoint {shown(name)!r}: {error.strerror}") from None
    if found:
        return found
    if is_group(name) and not path.exists():
        return models_in(name, {**available, **living})
    hub = home()
    if hub is not None and not path.exists() and path.name == name:
        return [hub.model(name)]
    near = "" if "/" in name else did_you_mean(name, [*available, *KINDS, *living])
    if name.partition("/")[0] in available:
        near = did_you_mean(name, several[SEEDS])
    elif known_task(name) is not None:
        near = f"; `python train.py task={name}` trains one"
    told = [text.partition(",")[0] for text in split_regimes(split_name(name)[1])[1]]
    if unknown := next((each for each in told if each not in regimes()), None):
        near = f"; {shown(unknown)!r} is no regime{did_you_mean(unknown, regimes())}"
    elif near and "," in name and "[" not in name:
        near = f"{near}; names are separated by spaces"
    if PACKAGED.is_dir() and path.name == name:  # the package brings a few models only
        near = f"{near}; {HOW_TO_GET}"
    raise CheckpointError(f"no checkpoint {shown(name)!r}: {_what_it_is(path)}, and not in models{near}")


def _named(name: str, several: dict[str, dict[str, Path]], models: Path) -> list[Path]:
    """Returns the folders of models that a name means; none if it is neither a name nor a number.

    Args:
        name: the name.
        several: what `ALL`, `SEEDS` and `REGIMES` mean.
        models: the folder of all of them, for messages.

    Raises:
        CheckpointError: if several are asked for, and there are none.
    """
    if name in several:
        if not several[name]:
            which = "checkpoints" if name == ALL else f"{name}"
            raise CheckpointError(f"there are no {which} in {models}; {HOW_TO_GET}")
        return list(several[name].values())
    for folders in several.values():
        if name in folders:
            return [folders[name]]
    if not name.isdigit():
        return []
    return [path for path in several[ALL].values() if str(read_record(path).legacy_id) == name]


def find_checkpoint(name: str) -> Path:
    """Returns the one checkpoint folder that `name` means, as `find_checkpoints` takes it.

    Raises:
        CheckpointError: if there is none, or several.
    """
    found = find_checkpoints(name)
    if len(found) > 1:
        raise CheckpointError(
            f"{shown(name)} means {len(found)} checkpoints; name one, for instance {found[0]}"
        )
    return found[0]


def record_in(folder: Path) -> ModelRecord:
    """Returns the record of a checkpoint whose weights are whole. Only the published files need torch.

    Raises:
        CheckpointError: if it is damaged.
    """
    if is_ours(folder):
        return check_files(folder, certificate=False)
    from interpbench.checkpoints.load import load_checkpoint

    return load_checkpoint(folder, certificate=False).record


def _below(path: Path) -> list[Path]:
    """Returns the folders of checkpoints that a path means: itself, that of a file of one, those below it."""
    if path.is_file() and (path.name in FILES or path.suffix == ".pth"):
        path = path.parent
    if is_checkpoint(path):
        return [path]
    files = [*path.glob(f"**/{RECORD}"), *path.glob("**/ll_model*.pth")] if path.is_dir() else []
    return sorted({file.parent for file in files})


def _what_it_is(path: Path) -> str:
    return "a folder without any" if path.is_dir() else "no file of one" if path.exists() else "not a folder"
