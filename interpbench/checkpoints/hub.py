"""Models on a Hugging Face repository: download, cache, upload. The network is used only where it is asked.

A repository is named `owner/name@revision`. Files land in the cache of `huggingface_hub`, which locks them
and lets nothing half-written appear; a broken download goes on where it was as long as the process lives,
and whole files are never fetched again. All files of a model come from one commit, and each must have the
hash that the index of that commit says.
"""

import contextlib
import errno
import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpbench.checkpoints.checkpoint_files import is_checkpoint
from interpbench.checkpoints.index import INDEX, Index, files_of, problem, read_index
from interpbench.core.errors import HubError, did_you_mean
from interpbench.core.files import read_bytes
from interpbench.core.progress import Display
from interpbench.core.text import shown

SETTING = "INTERPBENCH_HUB"
HOME: str | None = None
"""Where released models are (`owner/name@commit`), if INTERPBENCH_HUB in the environment does not say it."""
PINNED = {"cybershiptrooper/InterpBench": "a1242a84"}
"""The commit that is meant where a repository is named without a revision."""
SCHEME = "hf://"
UPLOAD = "upload"
_REPOSITORY = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w.-]+))?")
_ANSWERED = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
"""What a hub may call a commit or the content of a file."""
_UNWRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT),
)


class MissingError(HubError):
    """A repository, revision or file that is not on the hub."""


@dataclass(frozen=True)
class Repository:
    """A repository at a revision: a commit, a tag or a branch."""

    name: str
    revision: str

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> "Repository":
        """Reads `owner/name@revision`.

        Raises:
            HubError: if it is none, or the revision is missing and not known.
        """
        found = _REPOSITORY.fullmatch(text)
        if not found:
            raise HubError(f"{shown(text)!r} is not a repository; write owner/name@revision")
        revision = found[2] or PINNED.get(found[1])
        if revision is None:
            raise HubError(f"which revision of {text}? Write {text}@COMMIT, or {text}@main for the newest")
        return cls(found[1], revision)

    def file(
        self, path: str, online: bool, force: bool = False, report: Callable[[int], object] | None = None
    ) -> Path:
        """Returns a file in the cache, downloaded if it is not there and `online`.

        Args:
            path: in the repository.
            online: whether the network may be used.
            force: download it although it is there.
            report: called with every number of bytes that arrived.

        Raises:
            HubError: one line, whatever goes wrong.
        """
        from huggingface_hub import hf_hub_download

        with self._explained(path):
            place = hf_hub_download(
                self.name,
                path,
                revision=self.revision,
                cache_dir=cache_folder(),
                endpoint=_endpoint(),
                force_download=force,
                local_files_only=not online,
                tqdm_class=_bar(report or (lambda _: None)),
            )
        return Path(place)

    def index(self, online: bool) -> tuple[Index, "Repository"]:
        """Returns its index, and the repository at the commit that the index is of.

        Raises:
            HubError: if it cannot be had, or is damaged; one that is damaged in the cache is fetched anew
                where `online`.
        """
        path = self.file(INDEX, online)
        try:
            index = read_index(path)
        except HubError as error:
            if not online:
                raise HubError(f"{error}; interpbench download fetches it anew") from None
            path = self._anew(INDEX, path)
            index = read_index(path)
        return index, Repository(self.name, path.parent.name)

    def model(self, name: str, online: bool, refresh: bool = False) -> Path:
        """Returns the folder of a model in the cache, whole and verified.

        Args:
            name: its name or published number.
            online: whether what is missing may be downloaded.
            refresh: look for a newer commit of a branch, and replace damaged files.

        Raises:
            HubError: if there is no such model, or it is missing, changed or damaged.
        """
        index, at = self.index(online) if refresh or not self.is_cached(INDEX) else self.index(False)
        found = index.name_of(name)
        if found is None:
            raise HubError(f"no model {name!r} in {at}{did_you_mean(name, index.models)}")
        files = index.models[found].files
        total = sum(file.size for file in files.values() if file) // 1000
        arrived = 0

        def report(count: int) -> None:
            nonlocal arrived
            arrived += count
            display.update(arrived // 1000, "kB")

        paths: dict[str, Path] = {}
        with Display(found, total) as display:
            for file in files_of(index.models[found]):
                place = f"{found}/{file}"
                paths[file] = at.file(place, online, report=report)
                wrong = problem(paths[file], files[file])
                if wrong and refresh and online:
                    paths[file] = at._anew(place, paths[file], report)
                    wrong = problem(paths[file], files[file])
                if wrong:
                    again = "" if refresh else f"; interpbench download {found} fetches it anew"
                    raise HubError(f"{at}: {place} {wrong}{again}")
        return next(iter(paths.values())).parent

    def _anew(self, path: str, cached: Path, report: Callable[[int], object] | None = None) -> Path:
        """Downloads a file whose copy in the cache is damaged.

        The copy goes first: a file that was written in the place of the cache's link would stay otherwise.
        """
        with self._explained(path):
            cached.unlink(missing_ok=True)
        return self.file(path, online=True, force=True, report=report)

    def is_cached(self, path: str) -> bool:
        """Returns whether a file is in the cache."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.name, path, cache_folder(), self.revision)
        return isinstance(found, str) and Path(found).is_file()

    def snapshot(self, patterns: list[str], what: str, online: bool) -> Path:
        """Returns the folder of one commit in the cache, with the files that match shell patterns.

        `what` names them all in an error.
        """
        from huggingface_hub import snapshot_download

        with self._explained(what):
            place = snapshot_download(
                self.name,
                revision=self.revision,
                cache_dir=cache_folder(),
                endpoint=_endpoint(),
                local_files_only=not online,
                allow_patterns=patterns,
            )
        return Path(place)

    def upload(self, files: Mapping[str, bytes], message: str, create: bool = False) -> "Repository":
        """Uploads files in one commit, all or none of them; returns the repository at that commit.

        Raises:
            HubError: one line, whatever goes wrong.
        """
        from huggingface_hub import CommitOperationAdd, HfApi

        with self._explained(UPLOAD):
            api = HfApi(endpoint=_endpoint())
            if create:
                api.create_repo(self.name, exist_ok=True)
            additions = [CommitOperationAdd(path, data) for path, data in sorted(files.items())]
            commit = api.create_commit(self.name, additions, commit_message=message, revision=self.revision)
        return Repository(self.name, commit.oid)

    @contextlib.contextmanager
    def _explained(self, path: str) -> Generator[None]:
        """Turns whatever a transfer raises into one line."""
        from huggingface_hub import errors
        from huggingface_hub.utils import logging

        level = logging.get_verbosity()
        logging.set_verbosity_error()  # each attempt would be a line; the last one says all
        try:
            with _checked_answers():
                yield
        except errors.GatedRepoError:
            raise HubError(f"{self.name} asks for permission; request it there, then set HF_TOKEN") from None
        except errors.RepositoryNotFoundError:
            made = " (--create makes it)" if path == UPLOAD else ""
            raise MissingError(
                f"there is no repository {self.name} at {_host()}{made}, or it is private; then set HF_TOKEN"
            ) from None
        except errors.RevisionNotFoundError:
            raise MissingError(f"{self.name} has no revision {self.revision!r}") from None
        except errors.RemoteEntryNotFoundError:
            raise MissingError(f"{self} has no file {path}") from None
        except errors.HfHubHTTPError as error:
            raise HubError(f"{_host()} answers {_status(error)} for {self}: {path}") from None
        except (errors.LocalEntryNotFoundError, errors.IncompleteSnapshotError) as error:
            raise HubError(f"{self}: {path} is not in the cache{self._why(error)}") from None
        except errors.HTTPError as error:  # pyright: ignore[reportPrivateImportUsage]
            raise HubError(f"the transfer of {self}: {path} broke off: {_line(error)}") from None
        except OSError as error:
            if error.errno in _UNWRITABLE:
                raise HubError(f"cannot write to the cache {cache_folder()}: {error.strerror}") from None
            raise HubError(f"the transfer of {self}: {path} failed: {_line(error)}") from None
        except ValueError as error:
            raise HubError(f"{self}: {path}: {_line(error)}") from None
        finally:
            logging.set_verbosity(level)

    def _why(self, error: BaseException) -> str:
        """Says why a file that is not in the cache could not be fetched."""
        from huggingface_hub import errors

        cause = error.__cause__ or error.__context__
        if isinstance(cause, errors.OfflineModeIsEnabled):
            return " and HF_HUB_OFFLINE is set"
        if isinstance(cause, errors.HfHubHTTPError):
            return f" and {_host()} answers {_status(cause)}"
        if isinstance(cause, errors.FileMetadataError):
            return f" and {_host()} does not answer as a hub does"
        return "" if cause is None else f" and {_host()} cannot be reached ({_line(cause)})"


def home() -> Repository | None:
    """Returns the repository of released models, if one is set."""
    text = os.environ.get(SETTING, HOME or "")
    return Repository.parse(text) if text else None


def target_of(text: str) -> Repository:
    """Returns the repository that models are uploaded to: `owner/name`, or `owner/name@branch`.

    Raises:
        HubError: if it is none.
    """
    return Repository.parse(f"{text}@main" if "/" in text and "@" not in text else text)


def split(address: str) -> tuple[Repository, str]:
    """Splits `hf://owner/name[@revision]/folder` into repository and folder.

    Raises:
        HubError: if it is no such address.
    """
    parts = address.removeprefix(SCHEME).strip("/").split("/")
    if len(parts) < 3 or any(part in ("", ".", "..") for part in parts):
        raise HubError(f"{address!r} is not an address; write {SCHEME}owner/name@revision/folder")
    return Repository.parse("/".join(parts[:2])), "/".join(parts[2:])


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


def cache_folder() -> Path:
    """Returns the folder of the cache, which `huggingface_hub` and its environment variables determine."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    if "HF_HOME" in os.environ:
        return Path(os.environ["HF_HOME"]) / "hub"
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


@contextlib.contextmanager
def _checked_answers() -> Generator[None]:
    """Has every answer of a hub checked, as names in it become paths in the cache."""
    from huggingface_hub import get_session

    client: Any = get_session()
    hooks = client.event_hooks
    client.event_hooks = {**hooks, "response": [*hooks.get("response", []), _check_answer]}
    try:
        yield
    finally:
        client.event_hooks = hooks


def _check_answer(response: Any) -> None:
    """Refuses an answer whose ETag, commit or file names could lead out of the cache.

    Raises:
        HubError: naming what is wrong.
    """
    for header in ("etag", "x-linked-etag", "x-repo-commit"):
        value = str(response.headers.get(header) or "")
        if value and not _ANSWERED.fullmatch(value.lstrip("W/").strip('"')):
            raise HubError(f"{_host()} answers with the {header} {value[:99]!r}, which is no hash")
    if "/api/" not in str(response.url) or "json" not in str(response.headers.get("content-type")):
        return
    response.read()
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        return  # for huggingface_hub to complain of
    one: Any = answer if isinstance(answer, dict) else {}
    if not _ANSWERED.fullmatch(str(one.get("sha") or "none")):
        raise HubError(f"{_host()} answers with the commit {str(one['sha'])[:99]!r}, which is no hash")
    listed = answer if isinstance(answer, list) else one.get("siblings") or ()
    for entry in listed if isinstance(listed, list) else ():
        name = str(entry.get("path") or entry.get("rfilename") or "") if isinstance(entry, dict) else ""
        if name.startswith("/") or ".." in name.split("/"):
            raise HubError(f"{_host()} has a file {name[:99]!r}, which would be outside of the repository")


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT")


def _host() -> str:
    return _endpoint() or "https://huggingface.co"


def _status(error: Any) -> str:
    """Returns the status of an answer, and what to do about it."""
    status = error.response.status_code
    return f"{status}; {'is HF_TOKEN right?' if status in (401, 403) else 'try again later'}"


def _line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def _bar(report: Callable[[int], object]) -> Any:
    """Returns a class that `huggingface_hub` uses as its progress bar, and which reports instead."""
    from tqdm.auto import tqdm

    class Reporter(tqdm):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **settings: Any):
            super().__init__(*args, **{**settings, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            """Reports bytes."""
            report(int(n or 0))
            return None

    return Reporter
