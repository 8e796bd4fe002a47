"""A small server with the parts of the hub's HTTP API that `huggingface_hub` needs; it can be made to fail.

A repository is a dict of commits. Files that end in `.safetensors` or `.pth` are stored on another host, like
large files on the hub: requests for them are redirected, and their ETag is a SHA-256.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]
LARGE = (".safetensors", ".pth")


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclass
class Hub:
    """The contents of the server, the requests that it got, and how it is to fail.

    Attributes:
        commits: for each repository, the files of each commit, from the oldest to the newest.
        private: the repositories that need a token.
        requests: the method and path of every request, in order.
        status: for a path, the HTTP status to answer with.
        cut: for a path, after how many bytes of the body the connection is closed, one number for each
            request.
        replaced: for a path, the body that is sent instead of the right one, with the right one's hash.
        before: a function that is called with every path before the answer.
        headers: values of headers that are sent instead of the right ones.
        sha: the hash that is sent for every commit instead of the right one.
        listed: a file that is listed although it does not exist.
        large: the SHA-256 that is sent for every large file instead of the right one.
    """

    commits: dict[str, dict[str, Files]] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    requests: list[tuple[str, str]] = field(default_factory=list)
    status: dict[str, int] = field(default_factory=dict)
    cut: dict[str, list[int]] = field(default_factory=dict)
    replaced: Files = field(default_factory=dict)
    before: Callable[[str], None] = lambda _: None
    headers: dict[str, str] = field(default_factory=dict)
    sha: str = ""
    listed: str = ""
    large: str = ""
    address: str = ""

    @property
    def elsewhere(self) -> str:
        """The address of the other host, from which large files are read."""
        return self.address.replace("127.0.0.1", "localhost")

    def push(self, repository: str, files: Files) -> str:
        """Adds a commit with these files and returns its hash."""
        commits = self.commits.setdefault(repository, {})
        content = {**self.newest(repository), **files}
        commit = hashlib.sha1(repr((repository, len(commits), sorted(content))).encode()).hexdigest()
        commits[commit] = content
        return commit

    def newest(self, repository: str) -> Files:
        commits = self.commits.get(repository, {})
        return commits[list(commits)[-1]] if commits else {}

    def commit(self, repository: str, revision: str) -> str | None:
        """Returns the commit of a branch, or of the first digits of a hash."""
        commits = list(self.commits[repository])
        if revision == "main":
            return commits[-1] if commits else None
        return next((c for c in commits if c.startswith(revision)), None)

    def downloads(self) -> list[str]:
        """Returns the files that were read, in order."""
        read = [path for method, path in self.requests if method == "GET"]
        return [path for path in read if "/resolve/" in path or path.startswith("/cdn/")]


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append((self.command, path))
        self.hub.before(path)
        for end, status in self.hub.status.items():
            if path.endswith(end):
                return self.fail(status, "")
        parts = path.strip("/").split("/")
        if parts[0] == "cdn":
            return self.cdn(*parts[1:3], "/".join(parts[3:]))
        if parts[0] == "api":
            return self.api(parts[1:])
        return self.file("/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def allowed(self, repository: str) -> bool:
        token = self.headers.get("Authorization") == "Bearer secret"
        if repository not in self.hub.commits or (repository in self.hub.private and not token):
            self.fail(401 if repository in self.hub.private else 404, "RepoNotFound")
            return False
        return True

    def file(self, repository: str, revision: str, path: str) -> None:
        if not self.allowed(repository):
            return
        commit = self.hub.commit(repository, revision)
        if commit is None:
            return self.fail(404, "RevisionNotFound")
        data = self.hub.commits[repository][commit].get(path)
        if data is None:
            return self.fail(404, "EntryNotFound", {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit}
        if not path.endswith(LARGE):
            return self.send(path, data, {**headers, "ETag": f'"{git_hash(data)}"'})
        headers |= {"X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Linked-Size": str(len(data))}
        headers["Location"] = f"{self.hub.elsewhere}/cdn/{repository}/{commit}/{path}"
        return self.reply(302, b"", headers)

    def cdn(self, owner: str, name: str, rest: str) -> None:
        commit, _, path = rest.partition("/")
        data = self.hub.commits[f"{owner}/{name}"][commit][path]
        self.send(path, data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"'})

    def send(self, path: str, data: bytes, headers: dict[str, str]) -> None:
        """Sends a body, or the requested range of it; less if the connection is to be cut."""
        data, status = self.hub.replaced.get(path, data), 200
        asked = self.headers.get("Range")
        if asked:
            first = int(asked.removeprefix("bytes=").split("-")[0])
            headers = {**headers, "Content-Range": f"bytes {first}-{len(data) - 1}/{len(data)}"}
            data, status = data[first:], 206
        cuts = self.hub.cut.get(path)
        if cuts and self.command == "GET":
            return self.reply(status, data, headers, cuts.pop(0))
        return self.reply(status, data, headers)

    def api(self, parts: list[str]) -> None:
        if parts == ["repos", "create"]:
            asked = json.loads(self.body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.hub.commits.setdefault(name, {})
            return self.json({"url": f"{self.hub.address}/{name}"})
        if parts[0] == "validate-yaml":
            return self.json({"warnings": [], "errors": []})
        repository = "/".join(parts[1:3])
        if not self.allowed(repository):
            return None
        what, revision = (parts[3], parts[4]) if len(parts) > 4 else ("revision", "main")
        if what == "preupload":
            files = [file["path"] for file in json.loads(self.body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]
            return self.json({"files": modes})
        if what == "commit":
            return self.receive(repository)
        commit = self.hub.commit(repository, revision)
        if commit is None:
            return self.fail(404, "RevisionNotFound")
        files = {
            **self.hub.commits[repository][commit],
            **({self.hub.listed: b"x"} if self.hub.listed else {}),
        }
        if what == "tree":
            return self.json([self.entry(path, data) for path, data in files.items()])
        siblings = [{"rfilename": path} for path in files]
        sha = self.hub.sha or commit
        return self.json({"id": repository, "sha": sha, "siblings": siblings, "private": False})

    def entry(self, path: str, data: bytes) -> dict[str, object]:
        """Returns the entry of a file in a list of files."""
        listed = {"type": "file", "path": path, "size": len(data), "oid": git_hash(data)}
        if not path.endswith(LARGE):
            return listed
        digest = self.hub.large or hashlib.sha256(data).hexdigest()
        return {**listed, "lfs": {"oid": digest, "size": len(data), "pointerSize": 134}}

    def receive(self, repository: str) -> None:
        if self.headers.get("Authorization") != "Bearer secret":
            return self.fail(401, "")
        files: Files = {}
        for line in self.body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        commit = self.hub.push(repository, files)
        return self.json(
            {"commitUrl": f"{self.hub.address}/{repository}/commit/{commit}", "commitOid": commit}
        )

    def json(self, value: object) -> None:
        self.reply(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def fail(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self.reply(
            status, b"", {**(headers or {}), "X-Error-Code": code, "X-Error-Message": code or "failed"}
        )

    def reply(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, self.hub.headers.get(name, value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serve() -> Iterator[Hub]:
    """Returns a context in which the server runs."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    server.daemon_threads = True
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
