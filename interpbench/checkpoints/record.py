"""The record of a checkpoint, `model.json`, checked before anything is loaded for it. Needs no torch.

Everything in it is somebody's word. Its task is a name and never a file, an address or a path: what a name
means is looked up in the catalogue, or is what the user of a command says (`task=my_task.py:is_vowel`).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue
from pydantic.dataclasses import dataclass

from interpbench.checkpoints.checkpoint_files import RECORD
from interpbench.circuits.ground_truth import Truth, TruthNames
from interpbench.circuits.naming import EMBED, Node, parse_node
from interpbench.core.config import STRICT, Amount, Settings, Sha256, Steps, TaskName, checked
from interpbench.core.errors import CheckpointError, InterpBenchError
from interpbench.core.files import MOST_RECORD, read_json
from interpbench.core.old_names import renamed
from interpbench.core.text import shown
from interpbench.tasks.catalogue import known_task
from interpbench.tasks.family import split_name
from interpbench.tasks.task import Task
from interpbench.transformer.config import TransformerConfig

FORMAT = 1
MOST_WEIGHTS, MOST_WRITERS = 1 << 30, 1_000
"""What a record may claim before anything is allocated for it: numbers, and heads and MLPs."""
Token = Annotated[str, Field(max_length=256)] | bool | int | float | None
ShortText = Annotated[str, Field(min_length=1, max_length=256)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Provenance:
    """What a network is for, and how it was made.

    Attributes:
        task: name of the task.
        legacy_id: the published number of the task; None for none.
        kind: where the weights come from.
        vocabulary: the tokens in the order of their ids, BOS and PAD last.
        classes: the outputs in class order; None for a number.
        alignment: variable to node.
        truth: level to the names of required and allowed nodes or edges.
        training: the resolved settings; empty for compiled weights.
        versions: packages, Python and git commit.
        seed: the seed of everything that was drawn.
        steps: steps of training; 0 for compiled weights.
        guided: how many of these, from the first, were guided by probes or by attention that is supervised.
        seconds: wall-clock seconds of training, certificate included.
        cpu_seconds: the seconds that processors worked for it; 0 where nobody measured them.
    """

    task: TaskName
    legacy_id: Steps | None
    kind: Literal["trained", "compiled", "published"]
    vocabulary: list[Token]
    classes: list[Token] | None
    alignment: dict[ShortText, ShortText]
    truth: TruthNames
    training: Settings
    versions: dict[ShortText, ShortText]
    seed: int
    steps: Steps
    seconds: Amount
    guided: Steps = 0
    cpu_seconds: Amount = 0.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ModelRecord(Provenance):
    """What `model.json` says: a network's provenance, and what its file of weights is.

    Attributes:
        format: version of this format.
        shape: the network's shape.
        sha256: of the weights file.
    """

    format: int
    shape: TransformerConfig
    sha256: Sha256

    @property
    def read_truth(self) -> Truth:
        """The states of the network's nodes and edges.

        Raises:
            CheckpointError: if a name is not of this network, or two levels contradict each other.
        """
        return Truth.from_json(self.shape.graph, self.truth).consistent()

    @property
    def variables(self) -> dict[Node, tuple[str, ...]]:
        """The variables that each node but the embedding carries."""
        carried: dict[Node, tuple[str, ...]] = {}
        for variable, place in self.alignment.items():
            node = parse_node(place)
            if node != EMBED:
                carried[node] = (*carried.get(node, ()), variable)
        return carried


def _guided(training: dict[str, JsonValue], steps: JsonValue) -> JsonValue:
    """Returns the guided steps of an older version, which supervised attention up to the last one."""
    objective, curriculum = training.get("objective"), training.get("curriculum")
    if not isinstance(objective, dict) or not isinstance(steps, int):
        return 0
    if objective.get("attention_supervision"):
        return steps
    until = curriculum.get("probe_until") if isinstance(curriculum, dict) else None
    return (min(until, steps) if isinstance(until, int) else steps) if objective.get("probe") else 0


def read_record(folder: Path) -> ModelRecord:
    """Reads and checks `model.json` alone.

    Raises:
        CheckpointError: one line, if it is missing, damaged, of a newer format, or contradicts itself.
    """
    path = folder / RECORD
    data = read_numbered(path, FORMAT, "a checkpoint of this project")
    if isinstance(training := data.get("training"), dict):
        data["training"] = settings = dict(renamed(training, stored=True))  # pyright: ignore[reportUnknownArgumentType]
        data.setdefault("guided", _guided(settings, data.get("steps")))
    record = checked(ModelRecord, data, path, CheckpointError)
    try:
        _check(record)
    except InterpBenchError as error:
        raise CheckpointError(f"{path} is damaged: {error}") from None
    return record


def _check(record: ModelRecord) -> None:
    """Refuses a record of which one part does not fit another."""
    shape, classes = record.shape, record.classes
    check_size(shape)
    if len(record.vocabulary) != shape.d_vocab:
        raise CheckpointError(f"vocabulary: {len(record.vocabulary)} tokens, but d_vocab is {shape.d_vocab}")
    if shape.d_out != (1 if classes is None else len(classes)):
        said = "a number" if classes is None else f"{len(classes)} classes"
        raise CheckpointError(f"classes: {said}, but d_out is {shape.d_out}")
    for variable, place in record.alignment.items():
        if parse_node(place) not in shape.graph.node_index:
            raise CheckpointError(f"alignment.{shown(variable)}: the network has no node {shown(place)!r}")
    _ = record.read_truth


def read_numbered(path: Path, newest: int, what: str) -> dict[str, JsonValue]:
    """Reads a JSON object that says its format.

    Args:
        path: the file.
        newest: the newest format that this version reads.
        what: what the file should be, for messages.

    Raises:
        CheckpointError: one line, if it is not `what` it should be, or of a format after `newest`.
    """
    data = read_json(path, CheckpointError, MOST_RECORD)
    if not isinstance(data, dict) or type(data.get("format")) is not int:
        raise CheckpointError(f"{path} is not {what}")
    if not 1 <= data["format"] <= newest:
        newer = f"{path} has format {shown(data['format'])}"
        raise CheckpointError(f"{newer}; this version reads up to {newest}: upgrade interpbench")
    return data


def check_size(shape: TransformerConfig) -> None:
    """Refuses a shape that nothing should be allocated for.

    Raises:
        CheckpointError: if it is larger than any of this project's.
    """
    if shape.parameters > MOST_WEIGHTS or shape.n_layers * (shape.n_heads + 1) > MOST_WRITERS:
        writers = shape.n_layers * (shape.n_heads + 1)
        raise CheckpointError(
            f"its shape, of {shape.parameters:,} weights in {writers:,} heads and MLPs, is not one of ours: "
            f"at most {MOST_WEIGHTS:,} in {MOST_WRITERS:,}"
        )


def most_weights_bytes(shape: TransformerConfig) -> int:
    """Returns how large a file of weights of this shape can be: matrices, biases, and what names them."""
    vectors = (shape.n_layers + 1) * (8 * shape.d_model + shape.d_mlp + 3 * shape.n_heads * shape.d_head)
    return 4 * (shape.parameters + vectors + shape.d_out) + (1 << 20)


def task_of(name: str) -> Task:
    """Returns the task that a record names.

    Raises:
        CheckpointError: if it is neither in the catalogue nor one that the user has named: a record never has
            a file imported, a tokenizer fetched or a task made.
    """
    task = known_task(name)
    if task is None and known_task(split_name(name)[0]) is not None:
        raise CheckpointError(
            f"task {shown(name)!r} is made from parameters: say it yourself, --task {shown(name)!r} "
            f"(evaluate: task=…)"
        )
    if task is None:
        raise CheckpointError(
            f"task {shown(name)!r} is not in the catalogue; if it is your own, say where it is: "
            f"--task path/to/file.py:{shown(name)} (evaluate: task=…)"
        )
    return task
