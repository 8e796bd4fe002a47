"""Model cards: the landing page of a model, and of a repository of models, made from records alone."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from interpbench.alignment.alignment import align
from interpbench.checkpoints.format import Checkpoint
from interpbench.checkpoints.index import Index
from interpbench.circuits.certificate import Certificate
from interpbench.circuits.grades import RELEASED, said_of
from interpbench.circuits.ground_truth import LEVELS, State
from interpbench.core.text import code, markdown, printable, shown
from interpbench.reports.certificates import LEGEND, certificate_markdown
from interpbench.reports.drawing import draw_circuit
from interpbench.reports.labels import LEVEL_NAMES
from interpbench.reports.tables import circuit_lines
from interpbench.tasks.task import Task

CARD, PICTURE = "README.md", "circuit.png"
FRONT = """---
library_name: transformer-lens
tags:
- mechanistic-interpretability
- circuit-discovery
- interpbench
---
"""
STATES = """\
*Required*: patching it changes an output for some pair of inputs. *Allowed*: in the program's graph, but
without effect on any output of the domain. *Free*: one of the three inputs of a head, where the program says
only that the head reads. *Forbidden*: outside the circuit; patching it changes nothing."""
LIMITS = """\
What the certificate does not say: forbidden nodes set to what never occurs between inputs (zero, noise) may
well change the output; *stress* says how much. Inputs outside the task's domain are not covered."""


def model_card(checkpoint: Checkpoint, task: Task, name: str, address: str | None = None) -> str:
    """Returns the card of a model as Markdown; it shows `circuit.png` beside it.

    Args:
        checkpoint: the model.
        task: its task.
        name: how it is loaded.
        address: of the repository that it is published in, `owner/name@revision`.
    """
    record = checkpoint.record
    number = "" if record.legacy_id is None else f" Number {record.legacy_id} of the published InterpBench."
    alignment = align(task, record.shape.graph, record.alignment)
    parts = [
        FRONT,
        f"# {markdown(name)}",
        f"{task.description}{number}",
        f"A small transformer whose circuit is known{_certified(checkpoint)}",
        f"![The circuit]({PICTURE})",
        f"## How to load it\n\n{_loading(checkpoint, name, address)}",
        f"## Program\n\n{_block(task.listing())}",
        f"## Circuit\n\n{_block(circuit_lines(checkpoint.truth, alignment))}",
        f"## Truth\n\n{_truth(checkpoint)}\n\n{STATES}",
        f"## Certificate\n\n{_certificate(checkpoint.certificate)}",
        f"## Inputs and outputs\n\n{_ends(checkpoint, task)}",
        f"## Network\n\n{_table(vars(record.shape))}",
        f"## Training\n\n{_training(checkpoint)}",
    ]
    return "\n\n".join(parts) + "\n"


def picture(checkpoint: Checkpoint, task: Task) -> bytes:
    """Returns the circuit as PNG."""
    alignment = align(task, checkpoint.record.shape.graph, checkpoint.record.alignment)
    with TemporaryDirectory() as folder:
        path = Path(folder) / PICTURE
        draw_circuit(checkpoint.truth, path, alignment.carried, title=checkpoint.task)
        return path.read_bytes()


def repository_card(index: Index, repository: str) -> str:
    """Returns the card of a repository as Markdown: what there is, of which grade, and how to get it."""
    rows = ["| model | number | grade | size |", "|---|--:|---|--:|"]
    for name, model in index.models.items():
        number = "" if model.legacy_id is None else str(model.legacy_id)
        rows.append(f"| [{name}]({name}/{CARD}) | {number} | {model.claim} | {model.size / 1e3:,.0f} kB |")
    parts = [
        FRONT,
        "# Transformers with known circuits",
        "Small transformers, each with a certificate that says how far it computes what its program says: "
        "in the right nodes, through the right edges, and nowhere else.",
        "\n".join(rows),
        LEGEND,
        "## How to load one",
        f"```\npip install interpbench\nexport INTERPBENCH_HUB={repository}@main  # or a commit\n"
        "interpbench models --hub\ninterpbench download --all\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _truth(checkpoint: Checkpoint) -> str:
    states = [State.REQUIRED, State.FREE, State.ALLOWED, State.FORBIDDEN]
    truth = checkpoint.truth
    rows = [f"| | {' | '.join(state.name.lower() for state in states)} |", f"|---{'|--:' * len(states)}|"]
    for level in LEVELS:
        counts = " | ".join(str(truth.count(level, state)) for state in states)
        rows.append(f"| {LEVEL_NAMES[level]} | {counts} |")
    edges = ", ".join(f"`{name}`" for name in truth.required) or "none"
    return "\n".join(rows) + f"\n\nRequired edges: {edges}."


def _certified(checkpoint: Checkpoint) -> str:
    """Returns how a sentence about a circuit that is known goes on."""
    verdict = checkpoint.verdict()
    if verdict is None:
        return "; it has no certificate."
    said = said_of(checkpoint.certificate)
    return f" and certified: {said}." if verdict.reaches(RELEASED) else f"; its certificate reaches: {said}."


def _certificate(certificate: Certificate | None) -> str:
    if certificate is None:
        return "None: `interpbench certify` makes one."
    return f"{certificate_markdown(certificate)}\n\n{LIMITS}"


def _ends(checkpoint: Checkpoint, task: Task) -> str:
    record = checkpoint.record
    output = "one number" if record.classes is None else f"the classes {_few(record.classes)}, in this order"
    return (
        f"`[row, 1 + position]` token ids: BOS first, then up to {task.length} tokens; a token's id is its "
        f"place in {_few(record.vocabulary)}. {task.domain.size:,} inputs in all. The logits are "
        f"{output}; positions where the program has no value are not trained on."
    )


def _few(values: Sequence[object]) -> str:
    some = values if len(values) <= 30 else [*values[:12], "…", *values[-12:]]
    return ", ".join(map(code, some))


def _training(checkpoint: Checkpoint) -> str:
    record = checkpoint.record
    spent = f"{record.seconds:,.0f} s on the clock"
    if record.cpu_seconds:
        spent += f", {record.cpu_seconds:,.0f} s of processors"
    guided = f" ({record.guided:,} guided)" if record.guided else ""
    begun = ", from the weights of another run" if record.training.get("start") else ""
    head = f"Kind: {record.kind}. Seed {record.seed}, {record.steps:,} steps{guided}{begun}, {spent}."
    return f"{head}\n\n{_table({**_flat(record.training), **_flat({'versions': record.versions})})}"


def _flat(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Returns nested settings with their paths."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _table(values: Mapping[str, object]) -> str:
    cells = [
        f"| {code(name)} | {'–' if value is None else markdown(value)} |" for name, value in values.items()
    ]
    return "\n".join(["| | |", "|---|---|", *cells])


def _loading(checkpoint: Checkpoint, name: str, address: str | None) -> str:
    source = f"hf://{address}/{name}" if address else name
    tokens = [checkpoint.record.vocabulary.index("BOS"), 0]
    return (
        f'```python\nimport interpbench\nimport torch\n\ncheckpoint = interpbench.load("{source}")\n'
        f"tokens = torch.tensor([{tokens}])  # BOS {shown(checkpoint.record.vocabulary[0])}\n"
        "logits = checkpoint.network(tokens)\n"
        "print(checkpoint.truth.required)  # the names of the required edges\n"
        "bridge = checkpoint.network.to_transformer_lens()  # a TransformerLens 4 bridge\n```\n\n"
        f"The state dict has the names of TransformerLens's `HookedTransformer`; `interpbench export {name}` "
        "writes it with its configuration for TransformerLens 1 to 3."
    )


def _block(lines: list[str]) -> str:
    text = "\n".join(map(printable, lines))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"
