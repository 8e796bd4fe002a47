"""A hub that means harm: what it calls files and commits cannot lead out of the cache."""

import os
from pathlib import Path

import pytest

import interpbench
from interpbench.runs.download import download
from tests.hub_server import Hub
from tests.model_hub import GRADE, NAME, cached, refused

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("ETag", '"../../../outside"'),
        ("ETag", '"/outside"'),
        ("X-Repo-Commit", "../../../outside"),
        ("X-Linked-Etag", '"..%2f"'),
        ("X-Linked-Etag", '"../../../outside"'),
    ],
)
def test_what_a_hub_calls_things_cannot_lead_out_of_the_cache(
    hub: Hub, tmp_path: Path, header: str, value: str
) -> None:
    hub.headers[header] = value
    before = {path for path in tmp_path.glob("**/*") if "cache" not in path.parts}
    refused(lambda: download(["frac_prevs"]), hub.address, header.lower(), "which is no hash")
    assert {path for path in tmp_path.glob("**/*") if "cache" not in path.parts} == before
    assert not any(name.endswith(".safetensors") for name in cached())
    hub.headers.clear()
    assert download(["frac_prevs"])


def test_what_a_hub_lists_cannot_lead_out_of_the_cache(hub: Hub, tmp_path: Path) -> None:
    address = f"hf://{NAME}@main/frac_prevs"
    hub.sha = "../../../outside"
    refused(lambda: interpbench.load(address), "answers with the commit '../../../outside'")
    hub.sha, hub.large = "", "../../../outside"
    refused(lambda: interpbench.load(address), "answers with a hash of 'frac_prevs/model.safetensors'")
    hub.large, hub.listed = "", "frac_prevs/../../../../ll_model.pth"
    refused(lambda: interpbench.load(address), "which would be outside of the repository")
    assert not list(tmp_path.glob("**/outside*")) and not list(tmp_path.glob("**/ll_model*"))


def test_models_are_listed_whatever_the_cache_holds(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders among the references (`refs/pr/1`), a reference that is no text, a damaged certificate."""
    from rich.console import Console

    from interpbench.runs.models import list_models

    assert download(["frac_prevs"])
    (store,) = Path(os.environ["HF_HUB_CACHE"]).glob("models--*")
    commit = (store / "refs" / "main").read_text()
    (store / "refs" / "refs" / "pr").mkdir(parents=True)
    (store / "refs" / "refs" / "pr" / "1").write_text(commit)
    (store / "refs" / "bad").write_bytes(b"\xff\xfe")
    list_models(Console(width=200), hub=False)
    assert GRADE in capsys.readouterr().out
