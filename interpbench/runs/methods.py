"""Lists discovery methods, and says what is stored of them. Listing needs no torch."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from interpbench.core.text import markdown, terminal
from interpbench.discovery.known_methods import FILE, KnownMethod, known_methods

COLUMNS = {
    "source": "source",
    "code": "compared with",
    "looks_at": "looks at",
    "units": "units of scores",
    "sign": "sign",
    "granularity": "scores of its own",
    "cost": "cost",
    "budget": "budget",
    "deviations": "how ours differs",
    "test": "compared by",
}
"""What is said of a method, and the heading of it."""
PAGE = """\
# Methods

`interpbench methods` prints this table with the settings of each method; `make configs` makes the page anew
from the methods' classes. Everywhere: edges are from a writer (the embedding, a head,
an MLP) to a reader (a head's query, key or value input, an MLP's input, the logits); scores of edges and
nodes are larger for what matters more; *logit difference* is that between the corrupted and the clean
answer, and for numerical outputs the output itself. Every method that patches takes `direction=noising`,
the default, which is that of the source named first, `denoising`, or `both`; the last two need
`ablation=resample`, which `ugs` does not have by default, and `cdt`, which takes activations apart and
patches none, has no direction; zero ablation is of the whole output, positions included. A *share* is
that of its authors' steps of training which the defaults here take; the rows of the
[leaderboard](leaderboard.md) say it.

*Baselines* look at neither the network's answers nor gradients: what does not beat the best of them has found
no circuit.

"""


def list_methods(console: Console) -> None:
    """Prints every method of the package: what it is, and its settings with their defaults."""
    table = Table(title=f"{len(known_methods())} methods", show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for name, known in known_methods().items():
        settings = (f"{key}={json.dumps(schema.get('default'))}" for key, schema in known.settings.items())
        lines = [*(f"[bold]{title}[/]: {terminal(said)}" for title, said in _said(known))]
        table.add_row(name, "\n".join([*lines, f"[bold]settings[/]: {terminal(', '.join(settings)) or '-'}"]))
    console.print(table)


def methods_page(methods: Mapping[str, KnownMethod]) -> str:
    """Returns `docs/methods.md`."""
    header = ["method", *COLUMNS.values()]
    rows = [header, ["---"] * len(header)]
    for name, known in methods.items():
        said = dict(_said(known))
        rows.append(
            [f"`{name}`", *(markdown(said.get(title, "–").replace("`", "")) for title in COLUMNS.values())]
        )
    return PAGE + "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def _said(known: KnownMethod) -> Iterator[tuple[str, str]]:
    """Yields headings, and what is said under them."""
    record = known.record
    for key, title in COLUMNS.items():
        said = str(getattr(record, key))
        own = known.settings.get("steps", {}).get("default")
        if key == "budget" and record.authors_steps and isinstance(own, int):
            said += f"; {own:,} here, a share of {own / record.authors_steps:.0%}"
        if key == "source" and record.baseline:
            said = said if said.startswith("baseline") else f"baseline; {said}"
        if said:
            yield title, said


def package_methods() -> dict[str, type[Any]]:
    """Returns the classes of the package's methods, by their names."""
    from interpbench.discovery.method import methods

    return {name: made for name, made in methods().items() if made.__module__.startswith("interpbench.")}


def method_files() -> dict[Path, str]:
    """Returns what is stored of all methods, and `docs/methods.md` where there is a `docs`: file to text."""
    found = {name: _known(made) for name, made in package_methods().items()}
    lines = [f"{json.dumps(name)}: {json.dumps(_told(known))}" for name, known in found.items()]
    files = {FILE: "{\n" + ",\n".join(lines) + "\n}\n"}
    docs = FILE.parents[2] / "docs"
    return {**files, docs / "methods.md": methods_page(found)} if docs.is_dir() else files


def _known(made: type[Any]) -> KnownMethod:
    """Returns what is stored of a method, from its class."""
    settings = TypeAdapter(made).json_schema(mode="validation").get("properties", {})
    for setting in settings.values():
        setting.pop("title", None)
    return KnownMethod(made.record, settings)


def _told(known: KnownMethod) -> dict[str, object]:
    """Returns what is stored of a method as plain data, without what is the default."""
    return TypeAdapter(KnownMethod).dump_python(known, mode="json", exclude_defaults=True)
