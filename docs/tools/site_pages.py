"""Makes the pages of the site that are not Markdown files of `docs/`, whenever MkDocs builds it.

The home page is README; CONTRIBUTING, CHANGELOG, the licence and how to cite are the files of the repository;
notebooks are shown as they were saved; and the API has a page for each package, from its docstrings.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import interpbench

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the repository, and what they are called on the site."""
TEXTS = {"LICENSE": ("license.md", "Licence", "text"), "CITATION.cff": ("citation.md", "How to cite", "yaml")}
"""Files of the repository that are not Markdown: the page, its title, and the language of the text."""
TABLES = ("leaderboard.md", "learned/leaderboard.md", "methods.md", "tasks.md")
HIDDEN = {"index.md": "navigation", **dict.fromkeys(TABLES, "toc")}
"""What is hidden beside pages of one link or of wide tables, which need the room."""
NOTEBOOKS = ("known_circuit", *(f"studies/{path.stem}" for path in sorted(ROOT.glob("docs/studies/*.ipynb"))))
API = "API"
CLASSES = """## Classes

These functions take and return a [`Checkpoint`][interpbench.checkpoints.format.Checkpoint], its
[`Truth`][interpbench.circuits.ground_truth.Truth], a [`Problem`][interpbench.tasks.problem.Problem],
[`Scores`][interpbench.circuits.scores.Scores], [`LevelScores`][interpbench.scoring.results.LevelScores] and a
[`TrainOutcome`][interpbench.runs.train.TrainOutcome]. What is refused raises an
[`InterpBenchError`][interpbench.core.errors.InterpBenchError]."""
"""What the first page of the API says of classes, which are described with their packages."""
PICTURE = re.compile(r"^!\[([^\]]*)\]\(([\w/-]+\.(?:png|svg))\)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages of the API to the navigation."""
    for section in config.nav or ():
        if API in section:
            names = ("interpbench", *packages())
            section[API] = [{name: f"api/{name.replace('.', '-')}.md"} for name in names]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    texts = {page: (ROOT / name).read_text() for name, page in PAGES.items()}
    for name, (page, title, language) in TEXTS.items():
        texts[page] = f"# {title}\n\n```{language}\n{(ROOT / name).read_text().strip()}\n```\n"
    texts["api/interpbench.md"] = _front_page()
    texts |= {f"api/{name.replace('.', '-')}.md": _api_page(f"interpbench.{name}") for name in packages()}
    for name in NOTEBOOKS:
        notebook = json.loads((ROOT / "docs" / f"{name}.ipynb").read_text())
        texts[f"{name}.md"] = "\n\n".join(_cells(notebook))
    for page, text in texts.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files of the repository into those of pages; a picture becomes a link to itself."""
    page.meta["hide"] = [HIDDEN[page.file.src_uri]] if page.file.src_uri in HIDDEN else []
    return PICTURE.sub(r"[![\1](\2)](\2)", _moved(markdown))


def packages() -> list[str]:
    """Returns the packages of `interpbench`, those that know most others first."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    names = [name.strip().removeprefix("interpbench.") for row in rows for name in row.split("|")]
    there = {path.parent.name for path in (ROOT / "interpbench").glob("*/__init__.py")}
    return [*names, *sorted(there - set(names))]


def _moved(text: str) -> str:
    """Returns a page with the links that it needs on the site, where all pages lie side by side."""
    text = re.sub(r"\]\((?:docs|\.\.)/", "](", text)
    pages = {**PAGES, **{name: page for name, (page, _, _) in TEXTS.items()}}
    pages |= {f"{name}.ipynb": f"{name}.md" for name in NOTEBOOKS}
    for name, page in pages.items():
        text = re.sub(rf"\]\({re.escape(name)}(#[\w-]+)?\)", rf"]({page}\1)", text)
    return text


def _api_page(name: str) -> str:
    """Returns the page of a package: what it is, and each of its modules."""
    folder = ROOT.joinpath(*name.split("."))
    text = (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "").strip()
    found = [path for path in sorted(folder.rglob("*.py")) if _shown(path)]
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found]
    blocks = (_block(module, module, module.removeprefix(f"{name}.")) for module in modules)
    return "\n\n".join([f"# `{name}`", text, *blocks])


def _front_page() -> str:
    """Returns the page of what `import interpbench` offers."""
    shown = "show_root_heading: false, show_root_toc_entry: false, heading_level: 2"
    functions = f"::: interpbench\n    options: {{{shown}, members: [{', '.join(front_functions())}]}}"
    hidden = "separate_signature: false, show_signature: false, show_symbol_type_heading: false"
    tasks = _block("interpbench.tasks._Tasks.__call__", "tasks", "tasks", hidden)
    return "\n\n".join(["# `interpbench`", functions, tasks, CLASSES])


def front_functions() -> list[str]:
    """Returns the functions that `import interpbench` offers: of its public names, those in small letters.

    Classes are described with their packages, and `tasks`, which is a package, has a block of its own.
    """
    names = {name for name in interpbench.__all__ if name.islower() and not name.startswith("_")}
    return sorted(names - {"tasks"})


def _block(name: str, heading: str, label: str, more: str = "") -> str:
    """Returns the directive that describes an object, with a heading and a label in the table of contents."""
    return f'::: {name}\n    options: {{heading: "{heading}", toc_label: "{label}", {more}}}'


def _shown(path: Path) -> bool:
    """Whether a module has a place of its own: what declares single tasks does not."""
    return path.name != "__init__.py" and "programs" not in path.parts and "handwritten" not in path.parts


def _cells(notebook: dict[str, Any]) -> Iterator[str]:
    """Yields the cells of a notebook with their outputs."""
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"]).strip()
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        for place, output in enumerate(cell.get("outputs", ())):
            if output["output_type"] == "stream":
                yield f'```text title="Output"\n{"".join(output["text"]).strip()}\n```'
            elif image := output.get("data", {}).get("image/png"):
                data = "".join(image).replace("\n", "")
                yield f"![Figure {number}.{place}](data:image/png;base64,{data})"
