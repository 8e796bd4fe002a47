"""Finds checkpoints by what a user calls them."""

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


def find_checkpoints(name: str, models: Path | None = None) -> list[Path]:
    """Returns the checkpoint folders that `name` means.

    Args:
        name: `all` released models, one's name or published number, a checkpoint or run folder, or a folder
            of several runs.
        models: the folder of released models.

    Raises:
        CheckpointError: if there is none, with the nearest names.
    """
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
    if (path / RECORD).is_file():
        return [path]
    inside = sorted(record.parent for record in path.glob(f"**/{RECORD}")) if path.is_dir() else []
    if inside:
        return inside
    raise CheckpointError(
        f"no checkpoint {name!r}: not a folder, and not in models{did_you_mean(name, available)}"
    )
