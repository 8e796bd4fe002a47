"""What a hub answers is checked before it is used: its names and hashes become paths in the cache."""

import contextlib
import json
import re
from collections.abc import Generator, Iterator
from typing import Any

from interpbench.core.errors import HubError

_HASH = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
"""What a hub may call a commit or the content of a file."""


@contextlib.contextmanager
def checked_answers(host: str) -> Generator[None]:
    """Has every answer of a hub checked, as long as the context lasts.

    Raises:
        HubError: naming what could lead out of the cache.
    """
    from huggingface_hub import get_session

    def check(response: Any) -> None:
        if wrong := next(_wrong(response), None):
            raise HubError(f"{host} {wrong}")

    client: Any = get_session()
    hooks = client.event_hooks
    client.event_hooks = {**hooks, "response": [*hooks.get("response", []), check]}
    try:
        yield
    finally:
        client.event_hooks = hooks


def _wrong(response: Any) -> Iterator[str]:
    """Yields what is wrong with the hashes and the names of files in an answer."""
    for header in ("etag", "x-linked-etag", "x-repo-commit"):
        value = str(response.headers.get(header) or "")
        if value and not _is_hash(value.lstrip("W/").strip('"')):
            yield f"answers with the {header} {value[:99]!r}, which is no hash"
    if "/api/" not in str(response.url) or "json" not in str(response.headers.get("content-type")):
        return
    response.read()
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        return  # for huggingface_hub to complain of
    one: Any = answer if isinstance(answer, dict) else {}
    if not _is_hash(one.get("sha")):
        yield f"answers with the commit {str(one['sha'])[:99]!r}, which is no hash"
    listed = answer if isinstance(answer, list) else one.get("siblings") or ()
    for entry in listed if isinstance(listed, list) else ():
        file: Any = entry if isinstance(entry, dict) else {}
        name, large = str(file.get("path") or file.get("rfilename") or ""), file.get("lfs")
        if name.startswith("/") or ".." in name.split("/"):
            yield f"has a file {name[:99]!r}, which would be outside of the repository"
        if not _is_hash(file.get("oid")) or (isinstance(large, dict) and not _is_hash(large.get("oid"))):
            yield f"answers with a hash of {name[:99]!r} which is none"


def _is_hash(value: Any) -> bool:
    """Returns whether a value can be a hash, or is missing."""
    return not value or _HASH.fullmatch(str(value)) is not None
