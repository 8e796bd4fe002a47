"""The files of a checkpoint, ours and the published one's, and where released ones are.

In the folder of released models, `hist` is that of a task, `all_equal/seed1` one of another seed, and
`regimes/max_with_previous[regime=alive]` one of a task in a regime.
"""

from pathlib import Path

RECORD, WEIGHTS = "model.json", "model.safetensors"
CERTIFICATE, DATA = "certificate.json", "data.safetensors"
FILES = (WEIGHTS, RECORD, CERTIFICATE, DATA)
"""The files of a checkpoint."""
MOST_DATA = 1 << 26
"""The largest file of pairs of inputs, in bytes."""


PACKAGED = Path(__file__).resolve().parents[1] / "models"
"""The few released models that an installed package brings; a checkout has all of them beside the package."""


def models_folder() -> Path:
    """Returns the folder of released models: `models` here, or beside the package in a checkout."""
    here = Path("models")
    beside = Path(__file__).resolve().parents[2] / "models"
    return here if here.is_dir() or not beside.is_dir() else beside


def released(models: Path | None = None) -> dict[str, Path]:
    """Returns the released checkpoints, name to folder, in order.

    Args:
        models: where they are; None for `models_folder()` and, of those that are not there, `PACKAGED`.
    """
    folders = [PACKAGED, models_folder()] if models is None else [models]
    found = {path.parent.name: path.parent for folder in folders for path in folder.glob(f"*/{RECORD}")}
    return dict(sorted(found.items()))


def seeds(models: Path | None = None) -> dict[str, Path]:
    """Returns the checkpoints of other seeds, such as `all_equal/seed1`, name to folder.

    Args:
        models: the folder of released models; None for `models_folder()`.
    """
    folder = models or models_folder()
    found = {
        path.parent.relative_to(folder).as_posix(): path.parent for path in folder.glob(f"*/seed*/{RECORD}")
    }
    return dict(sorted(found.items()))


def in_regimes(models: Path | None = None) -> dict[str, Path]:
    """Returns the checkpoints of tasks in regimes, such as `hist[regime=alive]`, name to folder.

    Args:
        models: the folder of released models; None for `models_folder()`.
    """
    folders = ((models or models_folder()) / "regimes").glob(f"*/{RECORD}")
    return {path.parent.name: path.parent for path in sorted(folders)}


def all_released(models: Path | None = None) -> dict[str, Path]:
    """Returns every released model, name to folder: those of other seeds and of tasks in regimes, too.

    Args:
        models: the folder of released models; None for `models_folder()`.
    """
    return {**released(models), **seeds(models), **in_regimes(models)}


def published_weights(folder: Path) -> Path | None:
    """Returns the weights in a folder of the published InterpBench layout, the newest by name; or None."""
    plain = folder / "ll_model.pth"
    return plain if plain.is_file() else next(iter(sorted(folder.glob("ll_model*.pth"), reverse=True)), None)


def is_ours(folder: Path) -> bool:
    """Returns whether a folder holds a checkpoint of this project."""
    return (folder / RECORD).is_file()


def is_checkpoint(folder: Path) -> bool:
    """Returns whether a folder holds a checkpoint, ours or a published one."""
    return is_ours(folder) or published_weights(folder) is not None
