"""Downloads models into the cache, where every other command finds them, and verifies them."""

import logging
from collections.abc import Sequence

from interpbench.checkpoints.fetch import fetch
from interpbench.checkpoints.hub import SCHEME, SETTING, Repository, home, split
from interpbench.core.errors import HubError

log = logging.getLogger(__name__)


def download(names: Sequence[str], everything: bool = False) -> bool:
    """Downloads models by name, number or address; returns whether all came through.

    What is there and whole is not fetched again; a newer commit of a branch, and what is damaged, is.

    Raises:
        HubError: if nothing is named, no repository is set, or its index cannot be had.
    """
    failures: list[str] = []
    if everything:
        index, _ = _home().index(online=True)
        names = [*names, *index.models]
    if not names:
        raise HubError("which models? Name some, or say --all; interpbench models --hub lists them")
    for name in names:
        _ = split(name) if name.startswith(SCHEME) else _home()
    for name in dict.fromkeys(names):
        try:
            address = name.startswith(SCHEME)
            folder = fetch(name, refresh=True) if address else _home().model(name, refresh=True)
            log.info("%s is in %s", name, folder)
        except HubError as error:
            if len(names) == 1:
                raise
            failures.append(name)
            log.error("failed: %s: %s", name, error)
    if failures:
        log.error("%d of %d models failed: %s", len(failures), len(names), ", ".join(failures))
    return not failures


def _home() -> Repository:
    repository = home()
    if repository is None:
        raise HubError(f"no repository of models is set; say {SETTING}=owner/name@revision, or hf://…")
    return repository
