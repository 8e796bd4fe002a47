"""Rules of the repository that no linter checks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpbench.discovery.method import methods
from tests import ROOT

PACKAGE = sorted((ROOT / "interpbench").rglob("*.py"))
MODULES = [*PACKAGE, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
VAGUE = {"util", "utils", "helper", "helpers", "common", "misc"}
FORMER = {
    *("carriers", "divergence", "idle", "joined", "placement", "quiet", "readout", "replacement", "slack"),
    *("hl_model", "ll_model"),
}
"""Words that had another meaning here, or none, for which `docs/glossary.md` has the field's."""
UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
PROCESSES = {"joblib.Parallel", "joblib.delayed"}
"""What only sends objects between a command's own processes, and reads no file."""
UNSAFE_NAMES = {"eval", "exec", "__import__"}
UNSAFE_CALLS = {"torch.load", "torch.save", "numpy.load", "np.load"}
PICKLES = "interpbench/checkpoints/pickles.py"
"""The one exception, which says why: the published files are pickles, and read with `weights_only`."""


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def unsafe(source: str) -> Iterator[str]:
    """Yields what in a source could execute what it reads."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in UNSAFE_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = {f"{node.module}.{alias.name}" for alias in node.names} - PROCESSES
            found = {node.module.split(".")[0], *imported} if imported else set[str]()
            yield from found & (UNSAFE_MODULES | UNSAFE_CALLS)
        elif isinstance(node, ast.Name) and node.id in UNSAFE_NAMES:
            yield node.id
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in UNSAFE_CALLS:
            yield ast.unparse(node)


def test_modules_are_found() -> None:
    assert len(PACKAGE) > 30 and ROOT / "interpbench" / "runs" / "cli.py" in PACKAGE


@pytest.mark.parametrize("name", names(MODULES))
def test_no_module_is_longer_than_400_lines(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 400


def test_no_module_has_a_vague_name() -> None:
    vague = [name for name in names(MODULES) if VAGUE & set(Path(name).with_suffix("").parts)]
    assert vague == []


NAMESAKES = {
    "acdc": "the method, and the file that its authors' code writes",
    "config": "strict conversion, and the shape of a transformer",
    "eap_ig": "the method, and the file that its authors' code writes",
    "model": "of any kind: causal, transformer, and that of IOI",
    "strata": "of any task, and those of IOI",
}
"""Names that several modules have, and what tells these apart besides their package."""


def test_modules_have_names_of_their_own() -> None:
    places: dict[str, list[str]] = {}
    for path in PACKAGE:
        if path.name != "__init__.py":
            places.setdefault(path.stem, []).append(str(path.relative_to(ROOT)))
    assert {name for name, found in places.items() if len(found) > 1} == set(NAMESAKES)


@pytest.mark.parametrize("name", [n for n in names(PACKAGE) if not n.endswith("old_names.py")])
def test_names_are_those_of_the_glossary(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    found |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert FORMER.isdisjoint(word.strip("_").lower() for word in found)


def test_no_test_file_imports_another() -> None:
    """What several build is in `tests/builders.py` and the modules beside it."""
    imports = re.compile(r"^(?:from|import) tests\.(?:\w+\.)*(?:test_\w+|conftest)\b", re.MULTILINE)
    assert [name for name in names(MODULES) if imports.search((ROOT / name).read_text())] == []


def test_tests_lie_in_folders_called_as_the_packages_that_they_are_of() -> None:
    packages = {path.parent.name for path in (ROOT / "interpbench").glob("*/__init__.py")}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders == {*packages, "repository"} and not list((ROOT / "tests").glob("test_*.py"))


def test_no_test_returns_before_its_end() -> None:
    """What returns early passes, whatever comes after it."""
    early: list[str] = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        for test in ast.walk(ast.parse(path.read_text())):
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                inner = [
                    n for n in ast.walk(test) if isinstance(n, ast.FunctionDef | ast.Lambda) and n is not test
                ]
                nested = {id(node) for function in inner for node in ast.walk(function)}
                returns = (n for n in ast.walk(test) if isinstance(n, ast.Return) and id(n) not in nested)
                early += [f"{path.name}: {test.name}" for _ in returns]
    assert early == []


@pytest.mark.parametrize("name", ["train.py", "evaluate.py"])
def test_entry_points_are_short(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) <= 60


@pytest.mark.parametrize("name", names(PACKAGE))
def test_nothing_executes_what_it_reads(name: str) -> None:
    source = (ROOT / name).read_text()
    assert list(unsafe(source)) == (["torch.load"] if name == PICKLES else [])
    assert source.count("weights_only=True)\n") == (1 if name == PICKLES else 0)


@pytest.mark.parametrize(
    "source",
    [
        *("import pickle", "from pickle import loads", "import joblib as j", "from torch import load"),
        *("eval('1')", "exec(text)", "torch.load(path)", "read = torch.load", "np.load(path)"),
    ],
)
def test_the_search_for_unsafe_code_finds_it(source: str) -> None:
    assert len(list(unsafe(source))) == 1
    assert list(unsafe("model.eval(); load_state(path); safetensors.torch.load(data)")) == []


def test_every_method_has_a_yaml_and_every_yaml_a_method() -> None:
    yamls = sorted((ROOT / "configs" / "method").iterdir())
    assert [path.name for path in yamls] == [f"{name}.yaml" for name in methods()]


@pytest.mark.parametrize(
    ("pattern", "homes"),
    [
        (r"\.errors\(", ["core/config.py"]),  # what pydantic complains of, in words
        (r"\bbeta\w*inv\b|proportion_confint|binomtest", ["core/clopper_pearson.py"]),
        (r"\bConsole\(", ["core/console.py", "core/progress.py", "runs/sweep.py"]),  # output, errors, a file
        (r"np\.broadcast_to\(np\.arange\(tokens\.shape", ["causal/selection.py"]),
        (r"multipletests", ["scoring/comparison.py"]),
    ],
)
def test_what_is_done_in_many_places_has_one_home(pattern: str, homes: list[str]) -> None:
    found = [path for path in PACKAGE if re.search(pattern, path.read_text())]
    assert [str(path.relative_to(ROOT / "interpbench")) for path in found] == homes


REACHES = r"sys\.argv(\[[^]]*\])?\s*=[^=]|sys\.path\.(append|insert|extend)|hydra\._internal|hydra\.main\b"
"""What changes the command line or the search path of a process, or depends on the inside of Hydra."""


def test_nothing_reaches_into_the_process_or_into_hydra() -> None:
    """Except that a user who names a file of their own can import what lies beside it."""
    found = [path for path in PACKAGE if re.search(REACHES, path.read_text())]
    assert [str(path.relative_to(ROOT / "interpbench")) for path in found] == ["core/user_code.py"]
    for line in ("typed, sys.argv = sys.argv, []", "sys.argv[1:] = []", "sys.argv = []", "hydra._internal"):
        assert re.search(REACHES, line), line
    assert not re.search(REACHES, "finish(lambda: _train(sys.argv[1:])); made = sys.argv == []")


def test_modules_that_prose_names_are_there() -> None:
    """A name in backticks, as `training.screening` or `training/screening.py`, is not renamed by itself."""
    folders = "|".join(path.name for path in (ROOT / "interpbench").iterdir() if path.is_dir())
    dotted, path = rf"`(?:{folders})\.[a-z_]+", rf"`(?:interpbench/)?(?:{folders})/[a-z_/]+\.py"
    missing, names = list[str](), 0
    prose = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *PACKAGE]
    for file in prose:
        for found in re.findall(rf"{dotted}(?=[.`])|{path}(?=`)", file.read_text()):
            names += 1
            name = found.strip("`").removeprefix("interpbench/").removesuffix(".py").replace(".", "/")
            place = ROOT / "interpbench" / name
            if not (place.with_suffix(".py").is_file() or place.is_dir()):
                missing.append(f"{file.name}: {found}")
    assert missing == [] and names > 10


def test_no_two_public_types_share_a_name() -> None:
    """Classes and aliases of types, in whichever modules: one name means one thing."""
    places: dict[str, list[str]] = {}
    for path in PACKAGE:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found = [node.name]
            elif isinstance(node, ast.Assign):
                found = [target.id for target in node.targets if isinstance(target, ast.Name)]
            else:
                continue
            for name in found:
                if re.fullmatch(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*", name):
                    places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
    assert len(places) > 200
