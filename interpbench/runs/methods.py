"""Lists discovery methods, and stores what is known of them. Listing needs no torch."""

import json
import logging
from collections.abc import Iterator

from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from interpbench.core.files import write_text
from interpbench.core.text import markdown, terminal
from interpbench.discovery.known_methods import FILE, KnownMethod, known_methods

log = logging.getLogger(__name__)

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

`interpbench methods` prints this table with the settings of each method; `interpbench methods --write`
makes the page anew from the methods' classes. Everywhere: edges are from a writer (the embedding, a head,
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


def methods_page() -> str:
    """Returns `docs/methods.md`."""
    header = ["method", *COLUMNS.values()]
    rows = [header, ["---"] * len(header)]
    for name, known in known_methods().items():
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


def measure_methods() -> dict[str, KnownMethod]:
    """Returns what is stored of each method, from the methods themselves."""
    from interpbench.discovery.method import methods

    package = "interpbench.discovery."
    own = {name: made for name, made in methods().items() if made.__module__.startswith(package)}
    found: dict[str, KnownMethod] = {}
    for name, made in own.items():
        schema = TypeAdapter(made).json_schema(mode="validation")
        settings = schema.get("properties", {})
        for setting in settings.values():
            setting.pop("title", None)
        found[name] = KnownMethod(made.record, settings)
    return found


def _told(known: KnownMethod) -> dict[str, object]:
    """Returns what is stored of a method as plain data, without what is the default."""
    return TypeAdapter(KnownMethod).dump_python(known, mode="json", exclude_defaults=True)


def write_methods() -> None:
    """Stores what is known of all methods, and writes `docs/methods.md` where there is a `docs`."""
    lines = [f"{json.dumps(name)}: {json.dumps(_told(found))}" for name, found in measure_methods().items()]
    write_text(FILE, "{\n" + ",\n".join(lines) + "\n}\n")
    known_methods.cache_clear()
    log.info("wrote %s", FILE.name)
    page = FILE.parents[2] / "docs" / "methods.md"
    if page.parent.is_dir():
        write_text(page, methods_page())
        log.info("wrote docs/%s", page.name)
