"""`interpbench decoys`: what it prints, where its values are from, its gate, its document, its container."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from interpbench.core import user_code
from interpbench.core.errors import InterpBenchError
from interpbench.decoys import decoy_scores
from interpbench.decoys.decoy_circuits import DECOY_CIRCUITS, ORDER, decoy_circuit
from interpbench.decoys.decoy_scores import attribute, measure_cells
from interpbench.decoys.dissociation import stated
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.reports.decoys_page import decoys_page
from interpbench.reports.decoys_tables import COUNTERPARTS, REGIMES, carried_over
from interpbench.runs.cli import run_subcommand
from interpbench.runs.decoys_document import ROWS, TWINS, document
from interpbench.runs.exam import effects_in
from tests import ROOT

VALUES = {
    "METHOD": "patching",
    "CIRCUIT": "off_manifold",
    "LABELS": "scrambled",
    "SAMPLES": "64",
    "SEED": "3",
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VALUES:
        monkeypatch.delenv(f"NEUROTRACE_{name}", raising=False)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run_subcommand(["decoys", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_attribute_prints_the_published_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "attribute", "--method", "gradient", "--circuit", "suppressor")
    assert lines[:6] == [
        *("method : gradient (proxy)", "circuit : suppressor", "labels : true", "samples : 512"),
        *("seed : 0", "auroc : 0.7500"),
    ]
    features = [re.fullmatch(r"  ([* ]) f(\d+) +(\d\.\d{4})", line) for line in lines[6:]]
    assert len(features) == 12 and all(features)
    found = [(one[1] == "*", int(one[2]), float(one[3])) for one in features if one]
    scores = attribute("gradient", decoy_circuit("suppressor")).scores
    assert [score for _, _, score in found] == sorted((score for _, _, score in found), reverse=True)
    assert {feature for star, feature, _ in found if star} == {0, 1, 2, 3}
    assert [feature for _, feature, _ in found][:3] == [7, 6, 1]
    assert all(abs(scores[feature] - score) < 6e-5 for _, feature, score in found)


def test_a_flag_comes_before_a_variable_and_a_variable_before_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = said(capsys, "attribute")
    for name, value in VALUES.items():
        monkeypatch.setenv(f"NEUROTRACE_{name}", value)
    variables = said(capsys, "attribute")
    given = [
        "--method",
        "correlation",
        "--circuit",
        "clean",
        "--labels",
        "true",
        "--samples",
        "100",
        "--seed",
        "9",
    ]
    flags = said(capsys, "attribute", *given)
    assert [lines[:5] for lines in (defaults, variables, flags)] == [
        ["method : gradient (proxy)", "circuit : suppressor", "labels : true", "samples : 512", "seed : 0"],
        [
            "method : patching (causal)",
            "circuit : off_manifold",
            "labels : scrambled",
            "samples : 64",
            "seed : 3",
        ],
        ["method : correlation (proxy)", "circuit : clean", "labels : true", "samples : 100", "seed : 9"],
    ]
    wanted = attribute("patching", decoy_circuit("off_manifold"), "scrambled", 64, 3)
    assert variables[5] == f"auroc : {wanted.auroc:.4f}"
    assert {line[4:7].strip() for line in variables[6:] if "*" in line} == {
        f"f{feature}" for feature in range(12) if wanted.labels[feature]
    }
    monkeypatch.setenv("NEUROTRACE_SEED", "")
    assert said(capsys, "attribute")[4] == "seed : 0"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("method", "gradeint", "there is no 'gradeint'; did you mean gradient"),
        ("circuit", "supressor", "there is no 'supressor'; did you mean suppressor"),
        ("labels", "tru", "there is no 'tru'; did you mean true"),
        ("samples", "1", "'1' is no number from 2 to 100,000"),
        ("samples", "1e3", "'1e3' is no number from 2 to 100,000"),
        ("samples", "100001", "'100001' is no number from 2 to 100,000"),
        ("seed", "-1", "'-1' is no number from 0 to 1,000,000,000"),
        ("seed", "²", "'²' is no number from 0"),
    ],
)
def test_a_wrong_value_is_named_with_where_it_is_from(
    name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InterpBenchError, match=re.escape(f"--{name}: {why}")):
        run_subcommand(["decoys", "attribute", f"--{name}={value}"])
    monkeypatch.setenv(f"NEUROTRACE_{name.upper()}", value)
    with pytest.raises(InterpBenchError, match=re.escape(f"NEUROTRACE_{name.upper()}: {why}")) as caught:
        run_subcommand(["decoys", "attribute"])
    assert "\n" not in str(caught.value)


OWN = """
import numpy as np
from interpbench.decoys import attribution

@attribution("readout", "proxy")
def readout(network, inputs, rng):
    return np.abs(network.weights * network.output_weights[:, None]).sum(0)

@attribution("broken")
def broken(network, inputs, rng):
    return inputs.nothing
"""


def test_a_method_of_ones_own_is_run_from_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(ATTRIBUTIONS, "_values", dict(ATTRIBUTIONS._values))
    lines = said(capsys, "attribute", "--method", f"{tmp_path}/mine.py:readout", "--circuit", "suppressor")
    assert lines[0] == "method : readout (proxy)" and lines[5] == "auroc : 0.7500"
    compared = said(capsys, "compare", "--method", f"{tmp_path}/mine.py:readout", "--circuit", "suppressor")
    assert [any(f" {name} " in line for line in compared) for name in (*METHODS, "readout")] == [True] * 6
    monkeypatch.setenv("NEUROTRACE_METHOD", f"{tmp_path}/mine.py:readout")
    assert said(capsys, "attribute") == lines
    with pytest.raises(InterpBenchError, match=r"^mine.py:11: AttributeError: "):
        run_subcommand(["decoys", "attribute", "--method", f"{tmp_path}/mine.py:broken"])
    with pytest.raises(InterpBenchError, match="did you mean readout"):
        run_subcommand(["decoys", "attribute", "--method", f"{tmp_path}/mine.py:readuot"])
    with pytest.raises(InterpBenchError, match="there is no file"):
        run_subcommand(["decoys", "attribute", "--method", f"{tmp_path}/other.py:readout"])
    user_code._import.cache_clear()


@pytest.mark.parametrize("circuit", ORDER)
def test_compare_prints_the_auroc_of_every_method(circuit: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "compare", "--circuit", circuit)
    for method in METHODS[1:]:
        (line,) = [line for line in lines if f" {method} " in line]
        assert f" {stated(method, circuit):.4f} " in line
    assert lines[0].startswith(f"{circuit}: ")


def test_circuits_lists_all_of_them_and_the_methods(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(said(capsys, "circuits"))
    assert all(name in text for name in (*ORDER, *METHODS, "f0 f1 f2 f3 f6 f7"))


def test_the_gate_says_by_its_status_whether_all_holds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_subcommand(["decoys", "gate", "--seeds", "4"]) == 0
    assert "all statements hold on 4 seeds" in capsys.readouterr().out
    monkeypatch.setattr(decoy_scores, "decoy_circuit", lambda name: DECOY_CIRCUITS[name](0.5))
    assert run_subcommand(["decoys", "gate", "--seeds", "2"]) == 1
    out = capsys.readouterr().out
    assert "missed: dissociation: gradient on suppressor" in out and "all statements hold" not in out
    for count in ("0", "x", "10001"):
        with pytest.raises(InterpBenchError, match=f"--seeds: '{count}' is no number from 1 to 10,000"):
            run_subcommand(["decoys", "gate", "--seeds", count])


def test_the_document_is_current() -> None:
    page = (ROOT / "docs" / "decoys.md").read_text()
    assert document(page, measure_cells(), ROOT) == page, "interpbench decoys table"


def test_the_lesson_carries_over_where_the_document_says_so() -> None:
    found = carried_over(effects_in(ROOT / ROWS, ROOT / TWINS, "auroc"))
    counterparts = sum(map(len, COUNTERPARTS.values()))
    assert len(found) == counterparts * sum(map(len, REGIMES.values()))
    by_place = {(one.counterpart, one.effect.regimes): one for one in found}
    for name, regimes in (("eap", "saturated"), ("atp", "saturated + noisy"), ("activation_std", "alive")):
        one = by_place[name, regimes]
        assert one.fooled and one.worse and one.agrees and one.effect.inside.value < one.effect.twin.value
    held = by_place["exact", "saturated"]
    assert not held.fooled and not held.worse and held.agrees
    noisy = by_place["eap", "noisy"]  # noise alone is below what required edges do
    assert noisy.fooled and not noisy.worse and not noisy.agrees


def test_the_page_is_one_file_without_addresses(tmp_path: Path) -> None:
    assert run_subcommand(["decoys", "page", str(tmp_path / "decoys.html")]) == 0
    page = (tmp_path / "decoys.html").read_text()
    assert page == decoys_page() and "default-src 'none'" in page
    assert not any(mark in page for mark in ("/*STYLE", "/*DATA", "/*SCRIPT"))
    assert not re.search(r"https?:|url\(|src=|href=", page.replace("http://www.w3.org/2000/svg", ""))
    with pytest.raises(InterpBenchError, match="it is a folder"):
        run_subcommand(["decoys", "page", str(tmp_path)])


# The container, without Docker: its steps one by one.


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def installed() -> list[str]:
    """Returns the names of the packages that the image installs."""
    (run,) = [rest for name, rest in instructions() if name == "RUN"]
    words = run.split()
    assert words[:5] == ["pip", "install", "--no-cache-dir", "--constraint", "constraints.txt"]
    return words[5:]


def with_what_they_need(names: Sequence[str]) -> set[str]:
    """Returns names of distributions, and of all that these depend on."""
    found, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name not in found:
            found.add(name)
            needed = [Requirement(one) for one in requires(name) or ()]
            waiting += [
                one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})
            ]
    return found


ISOLATED = """
import importlib.abc, json, socket, sys

forbidden = set(json.loads(sys.argv.pop(1)))

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in forbidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def offline(*_):
    raise OSError("no network")

sys.meta_path.insert(0, Missing())
socket.socket.connect = socket.getaddrinfo = offline
"""


@pytest.mark.parametrize("arguments", [None, ["decoys", "page", "decoys.html"]])
def test_the_container_runs_offline_on_what_it_installs_and_copies(
    arguments: list[str] | None, tmp_path: Path
) -> None:
    steps = dict(instructions())
    for name, rest in instructions():
        if name == "COPY":
            source, target = rest.split()
            assert (ROOT / source).exists()
            (tmp_path / target).symlink_to(ROOT / source) if target != "." else None
    available = with_what_they_need(installed())
    forbidden = [
        name
        for name, homes in packages_distributions().items()
        if not available & {home.lower().replace("_", "-") for home in homes} and name != "interpbench"
    ]
    assert {"torch", "matplotlib", "hydra", "tracr", "jaxtyping", "statsmodels"} <= set(forbidden)
    entry, default = json.loads(steps["ENTRYPOINT"]), json.loads(steps["CMD"])
    assert entry[:2] == ["python", "-c"] and default == ["decoys", "gate"]
    done = subprocess.run(
        [sys.executable, "-c", ISOLATED + entry[2], json.dumps(forbidden), *(arguments or default)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stderr in ("", "wrote decoys.html\n")
    if arguments is None:
        assert "all statements hold on 16 seeds: dissociation, controls and null" in done.stdout


def test_the_container_installs_what_the_project_pins_and_runs_a_python_that_it_supports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {Requirement(one).name for one in project["dependencies"]}
    pinned = (ROOT / "constraints.txt").read_text().lower()
    assert set(installed()) <= names and all(f"\n{name}==" in pinned for name in installed())
    (image,) = [rest for name, rest in instructions() if name == "FROM"]
    assert Requirement(f"x{project['requires-python']}").specifier.contains(re.findall(r"\d\.\d+", image)[0])
    order = [name for name, _ in instructions()]
    assert order.index("USER") < order.index("ENTRYPOINT") and "USER" in order
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = {rest.split()[0] for name, rest in instructions() if name == "COPY"}
    assert ignored[0] == "*" and {f"!{source}" for source in sources} <= set(ignored)


def test_the_group_of_commands_has_a_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_subcommand(["decoys", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("attribute", "compare", "circuits", "table", "gate", "page"))
