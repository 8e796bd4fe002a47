"""Lists discovery methods with their settings, and stores what is known of them. Listing needs no torch."""

import json
import logging
from typing import Any

from rich.console import Console
from rich.table import Table

from interpbench.core.files import write_text
from interpbench.core.text import terminal
from interpbench.discovery.records import FILE, known_methods

log = logging.getLogger(__name__)


def list_methods(console: Console) -> None:
    """Prints every method of the package with its settings and their defaults."""
    table = Table(title=f"{len(known_methods())} methods")
    table.add_column("name", no_wrap=True)
    table.add_column("settings", overflow="fold")
    for name, settings in known_methods().items():
        said = (f"{key}={json.dumps(schema['default'])}" for key, schema in settings.items())
        table.add_row(name, terminal(", ".join(said)))
    console.print(table)


def measure_methods() -> dict[str, dict[str, Any]]:
    """Returns the JSON schema of each setting of each method, from the methods themselves."""
    from pydantic import TypeAdapter

    from interpbench.discovery.method import methods

    package = "interpbench.discovery."
    own = {name: made for name, made in methods().items() if made.__module__.startswith(package)}
    schemas = {name: TypeAdapter(made).json_schema(mode="validation") for name, made in own.items()}
    return {
        name: {
            key: {part: value for part, value in entry.items() if part != "title"}
            for key, entry in schema.get("properties", {}).items()
        }
        for name, schema in schemas.items()
    }


def write_methods() -> None:
    """Stores the settings of all methods."""
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in measure_methods().items()]
    write_text(FILE, "{\n" + ",\n".join(lines) + "\n}\n")
    known_methods.cache_clear()
    log.info("wrote %s", FILE.name)
