"""A method in a user's own file is a method like any other, without touching the package."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

import interpbench
from interpbench.core import user_code as core_own
from interpbench.core.errors import DiscoveryError, UnknownNameError
from interpbench.discovery import method as registry
from interpbench.discovery.method import get_method
from interpbench.runs import cli
from tests import ROOT

PAGE = (ROOT / "docs" / "add_a_method.md").read_text()
SOURCE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the file of `docs/add_a_method.md`; what it registers is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(registry.methods()._values)
    (tmp_path / "my_method.py").write_text(SOURCE)
    yield tmp_path
    forget(before)


def forget(before: dict[str, type[registry.Method]]) -> None:
    """Leaves the methods registered that a new process would have."""
    registry._methods._values.clear()
    registry._methods._values.update(before)
    core_own._import.cache_clear()


def evaluate(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> int:
    fixed = ("checkpoint=hist", "device=cpu", "pictures=false", "out=out")
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *overrides, *fixed])
    with pytest.raises(SystemExit) as caught:
        cli.evaluate()
    return int(caught.value.code or 0)


def records(folder: Path) -> dict[str, dict[str, object]]:
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("out/hist/*.json")}


def models(own: Path) -> None:
    (own / "models").symlink_to(ROOT / "models")


def test_it_is_evaluated_like_any_other(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models(own)
    assert evaluate(monkeypatch, "method=my_method.py:write_norm") == 0
    assert evaluate(monkeypatch, f"method={own / 'my_method.py'}", "method.power=2") == 0
    found = records(own)
    assert set(found) == {"write_norm", "write_norm-power=2"}
    assert found["write_norm-power=2"]["method"] == "write_norm"
    assert found["write_norm-power=2"]["settings"] == {"power": 2}


def test_it_is_run_again_only_after_its_file_has_changed(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models(own)
    before = {name: made for name, made in registry.methods().items() if name != "write_norm"}
    found: list[dict[str, object]] = []
    for source in (SOURCE, SOURCE, SOURCE.replace("norm(dim=1)", "norm(dim=1, p=1)")):
        (own / "my_method.py").write_text(source)
        assert evaluate(monkeypatch, "method=my_method.py:write_norm") == 0
        found.append(records(own)["write_norm"])
        forget(before)
    first, again, edited = found
    assert again == first, "a second run would have another time"
    assert edited["conditions"] != first["conditions"]
    assert edited["edges"] != first["edges"]
    assert evaluate(monkeypatch, "method=random") == 0
    assert cast("dict[str, object]", records(own)["random"]["conditions"])["source"] is None


def test_it_is_swept_with_others(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models(own)
    assert evaluate(monkeypatch, "-m", "method=random,my_method.py:write_norm") == 0
    assert set(records(own)) == {"random", "write_norm"}


def test_it_is_found_in_python(own: Path) -> None:
    models(own)
    scores = interpbench.discover("hist", "my_method.py", examples=4, power=2.0)
    again = interpbench.discover("hist", "my_method.py:write_norm", examples=4)
    assert scores.edges[-1, 1] == pytest.approx(again.edges[-1, 1] ** 2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_methid.py:x", "there is no file .*my_methid.py; did you mean my_method.py"),
        ("my_method.py:wright_norm", "unknown method in my_method.py 'wright_norm'; did you mean write_norm"),
        ("broken.py", "cannot import .*broken.py: broken.py:1: SyntaxError"),
        ("clash.py", "'acdc' is registered twice"),
        ("empty.py", "empty.py declares no method; decorate it with @method"),
    ],
)
def test_mistakes_are_one_line(own: Path, capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    (own / "broken.py").write_text("def (")
    (own / "empty.py").write_text("")
    (own / "clash.py").write_text(SOURCE.replace('"write_norm"', '"acdc"'))
    with pytest.raises((DiscoveryError, UnknownNameError), match=said) as caught:
        get_method(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["method=my_method.py:x"], "unknown method in my_method.py 'x'"),
        (["method=plain.py:plain"], "plain.py:plain is not a dataclass"),
        (["method=my_method.py:write_norm", "method.powr=2"], "unknown key 'method.powr'"),
    ],
)
def test_mistakes_on_the_command_line(
    own: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    overrides: list[str],
    said: str,
) -> None:
    plain = 'from interpbench.discovery.method import MethodRecord, method\n@method("plain")\nclass Plain:\n'
    plain += "    record = MethodRecord(sign='larger', cost='none', granularity='edge')\n"
    plain += "    def __call__(self, problem): ...\n"
    (own / "plain.py").write_text(plain)
    assert evaluate(monkeypatch, *overrides) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and said in err and err.count("\n") == 1
