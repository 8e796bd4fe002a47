"""Docstrings that a reader can understand alone, and packages that list what they offer.

Arguments that functions of a file share may be explained in the file's docstring, under `Common arguments:`.
"""

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest

from tests import ROOT

PACKAGES = sorted(path.parent.name for path in (ROOT / "interpbench").glob("*/__init__.py"))
FILES = sorted((ROOT / "interpbench").rglob("*.py"))
FEWEST_PARAMETERS = 3
"""A function or class with so many parameters explains each of them."""
FEWEST_WORDS = 4
"""The docstring of a constant has at least so many words before its first full stop."""
DEPENDENT = {"As", "By", "For", "From", "In", "Of", "On", "That", "To", "Which", "Whose", "With"}
"""Words with which only the rest of a sentence begins."""

Definition = ast.FunctionDef | ast.ClassDef


def parameters(function: ast.FunctionDef, bound: bool) -> list[str]:
    """Returns the names of a function's parameters, without `self` or `cls` and without `*args`."""
    plain = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return [*plain[bound:], *(argument.arg for argument in function.args.kwonlyargs)]


def fields(made: ast.ClassDef) -> list[str]:
    """Returns the public fields of a dataclass or NamedTuple; class variables are not fields."""
    found = [node for node in made.body if isinstance(node, ast.AnnAssign)]
    named = [node for node in found if not ast.unparse(node.annotation).startswith("ClassVar")]
    names = [node.target.id for node in named if isinstance(node.target, ast.Name)]
    return [name for name in names if not name.startswith("_")]


def is_record(made: ast.ClassDef) -> bool:
    text = [ast.unparse(node) for node in (*made.decorator_list, *made.bases)]
    return any(re.match(r"(?:\w+\.)?(?:dataclass|NamedTuple)\b", one) for one in text)


def has_decorator(function: ast.FunctionDef, name: str) -> bool:
    return any(ast.unparse(node).endswith(name) for node in function.decorator_list)


def public(body: list[ast.stmt]) -> Iterator[Definition]:
    found = (node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return (node for node in found if not node.name.startswith("_"))


CLASSES = {
    node.name: node
    for path in (ROOT / "interpbench").rglob("*.py")
    for node in ast.parse(path.read_text()).body
    if isinstance(node, ast.ClassDef)
}


def is_override(name: str, made: ast.ClassDef) -> bool:
    """Returns whether a base class, which explains the parameters, has a method of this name."""
    bases = [CLASSES[base.id] for base in made.bases if isinstance(base, ast.Name) and base.id in CLASSES]
    return any(
        any(node.name == name for node in public(base.body)) or is_override(name, base) for base in bases
    )


def to_explain(path: Path) -> Iterator[tuple[str, list[str], str, str]]:
    """Yields the name, the parameters, the section and the docstring of what a file offers to others."""
    for node in public(ast.parse(path.read_text()).body):
        doc = ast.get_docstring(node) or ""
        if isinstance(node, ast.FunctionDef):
            yield node.name, parameters(node, False), "Args", doc
            continue
        if is_record(node):
            yield node.name, fields(node), "Attributes", doc
        for method in (one for one in node.body if isinstance(one, ast.FunctionDef)):
            bound = not has_decorator(method, "staticmethod")
            if method.name == "__init__":
                yield node.name, parameters(method, bound), "Args", doc
            elif (not method.name.startswith("_") or method.name == "__call__") and not is_override(
                method.name, node
            ):
                told = ast.get_docstring(method) or ""
                yield f"{node.name}.{method.name}", parameters(method, bound), "Args", told


def explained(section: str, doc: str) -> set[str]:
    """Returns the names that a section of a docstring explains."""
    found = re.search(rf"^{section}:\n((?:    .*\n?|\n)+)", doc, re.MULTILINE)
    return set(re.findall(r"^    (\w+): \S", found[1], re.MULTILINE)) if found else set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "interpbench")))
def test_functions_and_classes_of_many_parameters_explain_each(path: Path) -> None:
    common = explained("Common arguments", ast.get_docstring(ast.parse(path.read_text())) or "")
    missing = {
        name: sorted(set(wanted) - explained(section, doc) - common)
        for name, wanted, section, doc in to_explain(path)
        if len(wanted) >= FEWEST_PARAMETERS
    }
    assert {name: some for name, some in missing.items() if some} == {}


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the lines and docstrings of the module-level constants of a file."""
    body = ast.parse(path.read_text()).body
    for node, following in pairwise(body):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            text = following.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield following.lineno, text.value


def stands_alone(doc: str) -> bool:
    first = re.split(r"(?<=\w)[.;:](?:\s|$)", doc)[0].split()
    return len(first) >= FEWEST_WORDS and first[0] not in DEPENDENT and not first[0][0].islower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT / "interpbench")))
def test_docstrings_of_constants_stand_alone(path: Path) -> None:
    assert [f"{line}: {doc}" for line, doc in constants(path) if not stands_alone(doc)] == []


@pytest.mark.parametrize("doc", ["Of significance.", "Whose masks get gradients at once.", "The limit."])
def test_the_check_of_constants_refuses_fragments(doc: str) -> None:
    assert not stands_alone(doc)
    assert stands_alone("The significance level alpha.")


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_list_what_they_offer(name: str) -> None:
    package = import_module(f"interpbench.{name}")
    assert set(package.__all__) <= set(dir(package))
    assert all(hasattr(package, offered) for offered in package.__all__)
    assert not set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
    with pytest.raises(AttributeError, match=f"module 'interpbench.{name}' has no attribute 'nothing'"):
        _ = package.nothing
