"""The models in the cache of downloads, whatever repository they are from."""

from collections.abc import Iterator
from pathlib import Path

from interpbench.checkpoints.checkpoint_files import is_checkpoint
from interpbench.checkpoints.hub import PINNED, SCHEME
from interpbench.checkpoints.hub_transfer import cache_folder
from interpbench.core.errors import HubError
from interpbench.core.files import read_bytes


def cached_models() -> Iterator[tuple[str, Path]]:
    """Yields the address and folder of every model in the cache, ours or published, of any repository."""
    for snapshot in sorted(cache_folder().glob("models--*--*/snapshots/*")):
        store = snapshot.parents[1]
        name = store.name.removeprefix("models--").replace("--", "/", 1)
        refs = [ref for ref in sorted((store / "refs").glob("*")) if ref.is_file()]  # others are not branches
        names = [ref.name for ref in refs if _commit_of(ref) == snapshot.name]
        revision = names[0] if names else snapshot.name
        at = name if PINNED.get(name) == revision else f"{name}@{revision}"
        for folder in sorted({path.parent for path in snapshot.rglob("*") if is_checkpoint(path.parent)}):
            yield f"{SCHEME}{at}/{folder.relative_to(snapshot).as_posix()}", folder


def _commit_of(ref: Path) -> str | None:
    """Returns the commit that a branch of the cache is at; None if the file is damaged."""
    try:
        return read_bytes(ref, 1 << 10, HubError).decode(errors="replace")
    except HubError:
        return None
