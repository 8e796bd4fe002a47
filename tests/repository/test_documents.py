"""Snippets, commands and pictures of README, of CONTRIBUTING and of every page in docs/ are tested."""

import os
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from interpbench.circuits.ground_truth import LEVELS
from interpbench.core import user_code
from interpbench.core.config import config_folder
from interpbench.discovery.method import methods
from interpbench.reports.models_page import BEGIN, END
from interpbench.runs import catalogue_commands, cli, exchange_commands, model_commands
from interpbench.runs.method_lists import expand
from interpbench.runs.models import pages
from interpbench.runs.overrides import hydra_overrides
from interpbench.runs.subcommand import SUBCOMMANDS, run_subcommand
from interpbench.tasks.catalogue import get_task
from tests import ROOT
from tests.registries import as_before

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {path.stem: path.read_text() for path in DOCUMENTS}
README = TEXTS["README"]
FENCED = r"```python\n(.*?)```"
SNIPPETS = {
    code: f"{name}-{number}"
    for name, text in reversed(TEXTS.items())
    for number, code in enumerate(re.findall(FENCED, text, re.DOTALL), 1)
}
SNIPPETS = {name: code for code, name in reversed(SNIPPETS.items())}
"""Each snippet once, by the first document that has it."""
FILES = {
    name: dict(re.findall(rf"`(my_\w+\.py)`[^`]*?:\n\n{FENCED}", text, re.DOTALL))
    for name, text in TEXTS.items()
}
"""The files of a user's own that each document shows: of one name, they differ from document to document."""
COMMANDS = {
    name: [
        line.split("  #")[0].strip()
        for block in re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in re.findall(r"^(?:python \w+\.py|interpbench|make) .*$", block, re.MULTILINE)
    ]
    for name, text in TEXTS.items()
}
PROSE = {
    name: re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL) for name, text in TEXTS.items()
}
"""The documents without their blocks of code."""
HYDRA = ("python", "interpbench train", "interpbench evaluate")
HERE = ("convert", "export", "export-problem", "methods", "score", "show", "tasks", "verify-problem")
"""Commands that are run; the others take minutes, or a network."""
__all__ = ["catalogue_commands", "exchange_commands", "model_commands"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the released models; what is registered in it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "models").symlink_to(ROOT / "models")
    with as_before():
        yield tmp_path
    user_code._import.cache_clear()


def write_files(document: str, folder: Path) -> None:
    for name, code in FILES[document].items():
        (folder / name).write_text(code)


def run(code: str, folder: Path) -> dict[str, Any]:
    path = folder / "snippet.py"
    path.write_text(code)
    return runpy.run_path(str(path))


def truth_of(name: str) -> Any:
    from interpbench.alignment.alignment import align
    from interpbench.alignment.find_ground_truth import find_truth
    from interpbench.tasks.shapes import shape

    task = get_task(name)
    return find_truth(align(task, shape(task).graph))


def a_task_can_be_trained(names: dict[str, Any]) -> None:
    from interpbench.runs.train import TrainConfig, train

    assert truth_of("is_vowel").names("qkv_edge", 2) == ["embed->m0", "m0->logits"]
    settings = {"max_steps": 20, "validation_rows": 64}
    certificate = {"enumerate_up_to": 1, "pairs": 64}
    assert train(TrainConfig(task="is_vowel", trainer=settings, certificate=certificate)).folder.is_dir()


def a_family_has_members(names: dict[str, Any]) -> None:
    task = get_task("token_before[steps=2]")
    assert task.causal_model.outputs(task.domain.all())[-1].tolist() == [-1, -1, 2, 2]


def a_causal_model_has_a_truth(names: dict[str, Any]) -> None:
    truth = truth_of("repeats")
    assert truth.names("head_edge", 2) == ["embed->a0.h1", "embed->m0", "a0.h1->m0", "m0->logits"]
    assert truth.names("qkv_edge", 3) == [f"embed->a0.h1<{slot}>" for slot in "qkv"]


def a_method_scores_every_level(names: dict[str, Any]) -> None:
    import interpbench

    (name,) = [name for name in ("write_norm", "difference", "signed_eap") if name in methods()]
    checkpoint = interpbench.load("frac_prevs")
    scores = interpbench.discover(checkpoint, name, examples=16)
    assert set(interpbench.compare(checkpoint.truth, scores)) == set(LEVELS)


def a_form_is_read_back(names: dict[str, Any]) -> None:
    import interpbench
    from interpbench.circuits.io.score_files import read_scores, write_scores

    truth = interpbench.load("frac_prevs").truth
    for name, circuit in (("a.tsv", truth.circuit), ("b.tsv", ~truth.circuit & truth.graph.legal)):
        write_scores(Path(name), truth.graph, "tsv", circuit=circuit)
        assert (read_scores(Path(name), truth.graph).circuit == circuit).all()


def a_figure_is_written(names: dict[str, Any]) -> None:
    from tests.evaluation_records import REQUIRED, record

    names["seconds_figure"]([record("hist", "exact", REQUIRED)], Path("seconds.png"))
    assert Path("seconds.png").read_bytes().startswith(b"\x89PNG")


def a_masked_model_is_traced(names: dict[str, Any]) -> None:
    from interpbench.masked_lm import generate_from_spec
    from tests.masked_models import facts, make, spec

    traced = spec(Path("runs"), {"Tiny": make(Path("runs/tiny"), "bert")}, facts()[:2])
    (result,) = names["trace_all"](traced, generate_from_spec(traced)[0])
    assert result.num_facts == 2 and Path("runs/trace_results.json").is_file()


CHECKS: dict[str, Callable[[dict[str, Any]], object]] = {
    '@task("is_vowel"': a_task_can_be_trained,
    "@task_family(": a_family_has_members,
    "@causal_task(": a_causal_model_has_a_truth,
    "@method(": a_method_scores_every_level,
    "@form(": a_form_is_read_back,
    "def seconds_figure": a_figure_is_written,
    "def trace_all(": a_masked_model_is_traced,
    "bridge.run_with_cache": lambda names: names["logits"].shape[:2] == names["tokens"].shape,
    '@ranking_metric("recall at twice': lambda names: "recall_at_double" in names["found"]["node"].metrics,
}
"""What a snippet brings, besides that it runs: a part of it to a check of the names that it leaves."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_runs(name: str, own: Path) -> None:
    code = SNIPPETS[name]
    write_files(name.rpartition("-")[0], own)
    names = run(code, own)
    for part, check in CHECKS.items():
        if part in code:
            assert check(names) is not False, part


def test_every_check_is_of_a_snippet() -> None:
    assert all(any(part in code for code in SNIPPETS.values()) for part in CHECKS)
    assert FILES["README"].keys() == {"my_task.py"}
    assert FILES["own_circuit"].keys() == {"my_task.py", "my_method.py"}


def test_the_library_snippet_prints_a_perfect_score(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = [code for name, code in SNIPPETS.items() if name.startswith("README") and "compare(" in code]
    run(code, own)
    assert float(capsys.readouterr().out.split()[-1]) == 1.0


def unique(*starts: str) -> list[str]:
    return sorted({c for commands in COMMANDS.values() for c in commands if c.startswith(starts)})


@pytest.mark.parametrize("command", [c for c in unique(*HYDRA) if not re.search(r"method=\S*my_method", c)])
def test_hydra_commands_compose(command: str) -> None:
    """Methods of a user's own are imported before Hydra composes: `test_own_methods.py`."""
    words = shlex.split(command)[1:]
    overrides = [word for word in words[1:] if not word.startswith("-")]
    if "-m" in words:
        overrides = [re.sub(r"^((?!hydra)[^,]*),.*", r"\1", override) for override in overrides]
    overrides = expand(hydra_overrides(overrides))
    with initialize_config_dir(config_folder(), version_base="1.3"):
        compose(Path(words[0]).stem, overrides)


@pytest.mark.parametrize("command", [c for c in unique("interpbench") if not c.startswith(HYDRA)])
def test_arguments_of_console_commands_are_taken(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = shlex.split(command)[1:]
    if name not in SUBCOMMANDS:  # of two words
        name, arguments = f"{name} {arguments[0]}", arguments[1:]
    monkeypatch.setitem(SUBCOMMANDS._values, name, SUBCOMMANDS[name]._replace(run=lambda _: 7))
    assert run_subcommand([*name.split(), *arguments]) == 7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", [name for name, commands in COMMANDS.items() if commands])
def test_commands_run_and_leave_nothing_but_runs(document: str, own: Path, monkeypatch: Any) -> None:
    write_files(document, own)
    commands = [command for command in COMMANDS[document] if command.split()[1] in HERE]
    if any("runs/evaluate/hist/eap.json" in command for command in commands):
        monkeypatch.setattr(sys, "argv", ["evaluate.py", "method=eap", "checkpoint=hist", "pictures=false"])
        with pytest.raises(SystemExit):
            cli.evaluate()
    for command in commands:
        if "runs/is_vowel " not in command:  # a checkpoint that a command beside it has trained
            assert run_subcommand(shlex.split(command)[1:]) == 0, command
    there = {path.name for path in own.iterdir()}
    assert there - {"runs"} == {"models", *FILES[document]}


def test_settings_and_commands_in_sentences_exist() -> None:
    inline = {code for text in PROSE.values() for code in re.findall(r"`([^`]+)`", text)}
    groups = r"(?:alignment|certificate|curriculum|draws|model|objective|stability|standard|trainer)"
    settings = {code for code in inline if re.fullmatch(rf"{groups}\.\w+(=\S+)?|objective=\w+", code)}
    settings -= {"certificate.json", "model.json", "model.safetensors"}
    assert len(settings) > 20
    with initialize_config_dir(config_folder(), version_base="1.3"):
        for choice in (setting for setting in settings if setting.startswith("objective=")):
            compose("train", [choice])
        said = sorted(setting for setting in settings if "." in setting.partition("=")[0])
        for name in ("train", "evaluate"):
            mine = [setting for setting in said if setting.startswith("stability") == (name == "evaluate")]
            composed = compose(name, hydra_overrides([setting for setting in mine if "=" in setting]))
            for group, _, key in (setting.partition("=")[0].partition(".") for setting in mine):
                assert key in composed[group], (group, key)
    commands = {code.split()[1] for code in inline if code.startswith("interpbench ")}
    assert commands <= {*(name.split()[0] for name in SUBCOMMANDS), "evaluate", "train"}


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    words = r"(?:`|^)make ([\w-]+)"
    said = {word for text in TEXTS.values() for word in re.findall(words, text, re.MULTILINE)}
    assert said <= set(targets) and {"demo", "test", "docs"} <= said


def test_readme_is_short() -> None:
    assert 150 <= len(README.splitlines()) <= 200


@pytest.mark.parametrize("document", TEXTS)
def test_what_is_named_exists(document: str) -> None:
    text, folder = TEXTS[document], next(path.parent for path in DOCUMENTS if path.stem == document)
    for path in re.findall(r"\]\(([\w/.-]+?)(?:#[\w-]+)?\)", text):
        assert (folder / path).exists(), path
    for path in re.findall(r"`((?:interpbench|configs|models|benchmarks|tests|docs)/[\w/.]*)`", text):
        assert (ROOT / path).exists(), path
    named = [
        (path, names.split(", ")) for path, names in re.findall(r"`([\w/]+\.py):\s+(\w+(?:, \w+)*)`", text)
    ]
    named += [(path, [name]) for name, path in re.findall(r"`(?:\w+\.)?(\w+)`\s+\(`([\w/]+\.py)`", text)]
    named += [
        (f"discovery/{module}.py", [name]) for module, name in re.findall(r"`discovery\.(\w+)\.(\w+)`", text)
    ]
    for path, names in named:
        there = (root / path for root in (ROOT, ROOT / "interpbench"))
        source = next(file for file in there if file.is_file()).read_text()
        for name in names:
            assert re.search(rf"^(?:\s*def |class ){name}\b|^{name}\b", source, re.MULTILINE), (path, name)


def test_links_of_every_page_of_the_site_lead_somewhere() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) > len(DOCUMENTS) - 2
    for page in pages:
        for path in re.findall(r"\]\(([\w/.-]+?)(?:#[\w-]+)?\)", page.read_text()):
            assert (page.parent / path).exists(), (page.relative_to(ROOT), path)


@pytest.mark.parametrize("document", TEXTS)
def test_paragraphs_in_lists_are_indented_as_the_site_needs(document: str) -> None:
    """With less than four spaces MkDocs ends the list, though other readers of Markdown do not."""
    assert not re.findall(r"\n\n {1,3}\S.*", PROSE[document])


def test_the_pictures_of_the_architecture_are_current(tmp_path: Path) -> None:
    tools = runpy.run_path(str(ROOT / "docs" / "tools" / "draw_architecture.py"))
    tools["draw"](tmp_path)
    for name in ("packages.svg", "training_row.svg"):
        drawn, stored = ((folder / name).read_text() for folder in (tmp_path, ROOT / "docs"))
        for said in (r"<text[^>]*>([^<]*)</text>", r'id="(\w+ imports \w+)"', r"fill: (#\w+)"):
            assert re.findall(said, drawn) == re.findall(said, stored), f"run draw_architecture.py: {name}"
    assert set(tools["PLACES"]) == {name for row in tools["layers"]() for name in row}


def test_what_is_said_of_models_is_current() -> None:
    for path, text in pages().items():
        assert path.read_text() == text, "interpbench models --write"
        assert text.count(BEGIN) == text.count(END) == 1


def test_no_document_names_a_folder_of_a_machine() -> None:
    assert not re.search(r"/(?:tmp|home|root|work)/", "".join(TEXTS.values())) and os.sep == "/"
