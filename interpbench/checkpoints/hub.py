"""Models on a Hugging Face repository: download and upload. The network is used only where it is asked.

A repository is named `owner/name@revision`. Its files land in the cache of `huggingface_hub`, whose
`snapshot_download` fetches what is missing of a model from one commit, goes on with what broke off, and lets
nothing half-written appear. What it does not do is done here: to compare each file with the hash that the
index of that commit says, to fetch a damaged file again, and to say which file is missing and why where it
returns a folder that lacks some.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from interpbench.checkpoints.checkpoint_files import RECORD
from interpbench.checkpoints.hub_transfer import UPLOAD, byte_bar, cache_folder, endpoint, explained
from interpbench.checkpoints.index import INDEX, Index, IndexedFile, problem, read_index
from interpbench.core.errors import HubError, did_you_mean
from interpbench.core.progress import Display
from interpbench.core.text import shown

SETTING = "INTERPBENCH_HUB"
HOME: str | None = None
"""Where released models are (`owner/name@commit`), if INTERPBENCH_HUB in the environment does not say it."""
PINNED = {"cybershiptrooper/InterpBench": "a1242a84"}
"""The commit that is meant where a repository is named without a revision."""
SCHEME = "hf://"
_REPOSITORY = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w.-]+))?")


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

    def file(self, path: str, online: bool, force: bool = False) -> Path:
        """Returns a file in the cache, downloaded if it is not there and `online`.

        Args:
            path: in the repository.
            online: whether the network may be used.
            force: download it although it is there.

        Raises:
            HubError: one line, whatever goes wrong.
        """
        from huggingface_hub import hf_hub_download

        with explained(self.name, self.revision, path):
            place = hf_hub_download(
                self.name,
                path,
                revision=self.revision,
                cache_dir=cache_folder(),
                endpoint=endpoint(),
                force_download=force,
                local_files_only=not online,
            )
        return Path(place)

    def snapshot(
        self,
        patterns: Sequence[str],
        what: str,
        online: bool,
        force: bool = False,
        report: Callable[[int], object] = lambda _: None,
    ) -> Path:
        """Returns the folder of one commit in the cache, with the files that match shell patterns.

        Args:
            patterns: shell patterns of paths in the repository; files that match one are downloaded.
            what: how error messages call these files, such as the name of the model that they belong to.
            online: whether the network may be used.
            force: download the files again, even if they are in the cache.
            report: a function that shows progress. Whenever bytes have arrived, it is called with their
                number, from several threads.

        Raises:
            HubError: one line, whatever goes wrong.
        """
        from huggingface_hub import snapshot_download

        def download(workers: int) -> str:
            return snapshot_download(
                self.name,
                revision=self.revision,
                cache_dir=cache_folder(),
                endpoint=endpoint(),
                force_download=force,
                local_files_only=not online,
                allow_patterns=list(patterns),
                max_workers=workers,
                tqdm_class=byte_bar(report),
            )

        with explained(self.name, self.revision, what):
            try:
                return Path(download(workers=8))
            except (AttributeError, RuntimeError):  # a thread closed the client that another was about to use
                return Path(download(workers=1))

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
            with explained(self.name, self.revision, INDEX):
                path.unlink(missing_ok=True)  # what was written in the place of the cache's link would stay
            path = self.file(INDEX, online, force=True)
            index = read_index(path)
        return index, Repository(self.name, path.parent.name)

    def model(self, name: str, refresh: bool = False) -> Path:
        """Returns the folder of a model in the cache, whole and verified; what is missing is downloaded.

        Args:
            name: its name or published number.
            refresh: look for a newer commit of a branch, and replace damaged files.

        Raises:
            HubError: if there is no such model, or it cannot be had, is changed or damaged.
        """
        index, at = self.index(online=refresh or not self.is_cached(INDEX))
        found = index.name_of(name)
        if found is None:
            raise HubError(f"no model {name!r} in {at}{did_you_mean(name, index.models)}")
        files = {f"{found}/{file}": entry for file, entry in index.models[found].files.items()}
        record = f"{found}/{RECORD}"
        folder = at._verified(found, {path: file for path, file in files.items() if path != record}, refresh)
        if record in files:  # comes last: a folder with a record is whole
            at._verified(found, {record: files[record]}, refresh)
        return folder / found

    def _verified(self, model: str, files: Mapping[str, IndexedFile], refresh: bool) -> Path:
        """Returns the folder of a commit in the cache in which some files of a model are the indexed ones."""
        arrived = 0

        def report(count: int) -> None:
            nonlocal arrived
            arrived += count
            display.update(arrived // 1000, "kB")

        with Display(model, sum(file.size for file in files.values()) // 1000) as display:
            folder = self.snapshot(list(map(escape, files)), model, online=True, report=report)
            for path in files:
                if not (folder / path).exists():
                    self.file(path, online=True)  # says why it is missing
            wrong = [path for path, file in files.items() if problem(folder / path, file)]
            if wrong and refresh:
                for path in wrong:
                    with explained(self.name, self.revision, path):
                        (folder / path).unlink(missing_ok=True)
                self.snapshot(list(map(escape, wrong)), model, online=True, force=True, report=report)
        for path in wrong:
            if said := problem(folder / path, files[path]):
                again = "" if refresh else f"; interpbench download {model} fetches it anew"
                raise HubError(f"{self}: {path} {said}{again}")
        return folder

    def is_cached(self, path: str) -> bool:
        """Returns whether a file is in the cache."""
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.name, path, cache_folder(), self.revision)
        return isinstance(found, str) and Path(found).is_file()

    def upload(self, files: Mapping[str, bytes], message: str, create: bool = False) -> "Repository":
        """Uploads files in one commit, all or none of them; returns the repository at that commit.

        Args:
            files: path in the repository to content.
            message: the commit's.
            create: whether to make the repository if there is none.

        Raises:
            HubError: one line, whatever goes wrong.
        """
        from huggingface_hub import CommitOperationAdd, HfApi

        with explained(self.name, self.revision, UPLOAD):
            api = HfApi(endpoint=endpoint())
            if create:
                api.create_repo(self.name, exist_ok=True)
            additions = [CommitOperationAdd(path, data) for path, data in sorted(files.items())]
            commit = api.create_commit(self.name, additions, commit_message=message, revision=self.revision)
        return Repository(self.name, commit.oid)


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
