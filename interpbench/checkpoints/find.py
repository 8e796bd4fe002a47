"""Finds checkpoints by what a user calls them: in `models/`, on the disk, in the cache, on a hub."""

from pathlib import Path

from interpbench.core.errors import CheckpointError, did_you_mean

RECORD = "model.json"
CERTIFICATE = "certificate.json"


def models_folder() -> Path:
    """Returns the folder of released models: `models` here, or beside the package in a checkout."""
    here = Path("models")
    beside = Path(__file__).resolve().parents[2] / "models"
    return here if here.is_dir() or not beside.is_dir() else beside


def released(models: Path | None = None) -> dict[str, Path]:
    """Returns the released checkpoints, name to folder, in order."""
    folder = models or models_folder()
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{RECORD}"))}


def published_weights(folder: Path) -> Path | None:
    """Returns the weights in a folder of the published InterpBench layout, the newest by name; or None."""
    plain = folder / "ll_model.pth"
    return plain if plain.is_file() else next(iter(sorted(folder.glob("ll_model*.pth"), reverse=True)), None)


def is_checkpoint(folder: Path) -> bool:
    """Returns whether a folder holds a checkpoint, ours or a published one."""
    return (folder / RECORD).is_file() or published_weights(folder) is not None


def find_checkpoints(name: str, models: Path | None = None) -> list[Path]:
    """Returns the checkpoint folders that `name` means.

    The network is used only for an address (`hf://owner/name@revision/folder`), or a name that is neither
    here nor in the cache, if a repository of models is set (`hub.SETTING`).

    Args:
        name: `all` released models, one's name or published number, a checkpoint or run folder, a folder
            of several runs or of the published files, or an address.
        models: the folder of released models.

    Raises:
        CheckpointError: if there is none, with the nearest names; or it cannot be downloaded.
    """
    if name.startswith("hf://"):
        from interpbench.checkpoints.download import fetch

        return [fetch(name)]
    available = released(models)
    if name == "all":
        if not available:
            raise CheckpointError(f"there are no checkpoints in {models or models_folder()}")
        return list(available.values())
    if name in available:
        return [available[name]]
    if name.isdigit():
        from interpbench.checkpoints.format import read_record  # not above: it imports torch

        found = [path for path in available.values() if str(read_record(path).legacy_id) == name]
        if found:
            return found
    path = Path(name) if 0 < len(name) < 255 else Path("no such folder")
    if path.is_file():
        path = path.parent
    if is_checkpoint(path):
        return [path]
    files = [*path.glob(f"**/{RECORD}"), *path.glob("**/ll_model*.pth")] if path.is_dir() else []
    if files:
        return sorted({file.parent for file in files})
    from interpbench.checkpoints.hub import home

    hub = home()
    if hub is not None and not path.exists() and path.name == name:
        return [hub.model(name, online=True)]
    raise CheckpointError(
        f"no checkpoint {name!r}: not a folder, and not in models{did_you_mean(name, available)}"
    )
