"""What surrounds every transfer from and to a hub: host, cache, progress, and errors in one line."""

import contextlib
import errno
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from interpbench.checkpoints.hub_answers import checked_answers
from interpbench.core.errors import HubError

UPLOAD = "upload"
"""What is transferred where a commit is made."""
_UNWRITABLE = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT),
)
_ALL_BYTES = "huggingface_hub.snapshot_download"
"""The name of the progress bar of `snapshot_download` that counts the bytes of all files."""


class MissingError(HubError):
    """A repository, revision or file that is not on the hub."""


def endpoint() -> str | None:
    """Returns the address of the hub, if the environment names another one than Hugging Face's."""
    return os.environ.get("HF_ENDPOINT")


def cache_folder() -> Path:
    """Returns the folder of the cache, which `huggingface_hub` and its environment variables determine."""
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    if "HF_HOME" in os.environ:
        return Path(os.environ["HF_HOME"]) / "hub"
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


@contextlib.contextmanager
def explained(repository: str, revision: str, what: str) -> Generator[None]:
    """Checks what the hub answers, and turns whatever a transfer raises into one line.

    Args:
        repository: its name.
        revision: a commit, a tag or a branch.
        what: is transferred.

    Raises:
        HubError: one line, whatever goes wrong.
    """
    from huggingface_hub import errors
    from huggingface_hub.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # each attempt would be a line; the last one says all
    try:
        with checked_answers(_host()):
            yield
    except (OSError, ValueError, errors.HTTPError) as error:  # pyright: ignore[reportPrivateImportUsage]
        raise _explanation(error, repository, revision, what) from None
    finally:
        logging.set_verbosity(level)


def _explanation(error: BaseException, repository: str, revision: str, what: str) -> HubError:
    """Returns what went wrong, and what to do about it; the kinds of errors are subclasses of each other."""
    from huggingface_hub import errors

    at = f"{repository}@{revision}"
    match error:
        case errors.GatedRepoError():
            return HubError(f"{repository} asks for permission; request it there, then set HF_TOKEN")
        case errors.RepositoryNotFoundError():
            where = f"{_host()}{' (--create makes it)' if what == UPLOAD else ''}"
            return MissingError(
                f"there is no repository {repository} at {where}, or it is private; then set HF_TOKEN"
            )
        case errors.RevisionNotFoundError():
            return MissingError(f"{repository} has no revision {revision!r}")
        case errors.RemoteEntryNotFoundError():
            return MissingError(f"{at} has no file {what}")
        case errors.HfHubHTTPError():
            return HubError(f"{_host()} answers {_status(error)} for {at}: {what}")
        case errors.LocalEntryNotFoundError():
            return HubError(
                f"{at}: {what} is not in the cache{_reason(error.__cause__ or error.__context__)}"
            )
        case OSError() if error.errno in _UNWRITABLE:
            return HubError(f"cannot write to the cache {cache_folder()}: {error.strerror}")
        case ValueError():
            return HubError(f"{at}: {what}: {_line(error)}")
        case _:
            return HubError(f"the transfer of {at}: {what} broke off: {_line(error)}")


def _reason(cause: BaseException | None) -> str:
    """Says why what is not in the cache could not be fetched."""
    from huggingface_hub import errors

    match cause:
        case None:
            return ""
        case errors.OfflineModeIsEnabled():
            return " and HF_HUB_OFFLINE is set"
        case errors.HfHubHTTPError():
            return f" and {_host()} answers {_status(cause)}"
        case errors.FileMetadataError():
            return f" and {_host()} does not answer as a hub does"
        case _:
            return f" and {_host()} cannot be reached ({_line(cause)})"


def _host() -> str:
    return endpoint() or "https://huggingface.co"


def _status(error: Any) -> str:
    """Returns the status of an answer, and what to do about it."""
    status = error.response.status_code
    return f"{status}; {'is HF_TOKEN right?' if status in (401, 403) else 'try again later'}"


def _line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__


def byte_bar(report: Callable[[int], object]) -> Any:
    """Returns a class that `snapshot_download` uses as its progress bars, and which reports bytes instead."""
    from huggingface_hub.utils import tqdm

    class Reporter(tqdm):
        def __init__(self, *args: Any, **settings: Any):
            self.reports = settings.get("name") == _ALL_BYTES
            super().__init__(*args, **{**settings, "disable": True})

        def update(self, n: float | None = 1) -> bool | None:
            """Reports bytes."""
            if self.reports:
                report(int(n or 0))
            return None

    return Reporter
