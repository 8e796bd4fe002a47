"""The published InterpBench files as checkpoints: a folder a task, named by the task's number.

`ll_model.pth` holds the weights, `ll_model_cfg.pkl` a TransformerLens configuration, `meta.json` training
settings, `edges.pkl` the circuit that is claimed; an early release writes `ll_model_510.pth`. MIB's variant
has the configuration, and its circuit as `interpbench_graph.json`, one folder up. Task, alignment and truth
are those of our task with that number: nothing of what the files claim is believed.

Their token ids are sorted with `BOS` and `PAD` among the tokens; for IOI they are GPT-2's, of which only
those of the task's words are kept. Rows and columns are put in our order, and the network is one like any.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from interpbench.alignment.alignment import align
from interpbench.alignment.find_ground_truth import find_truth
from interpbench.checkpoints.certificate_file import certificate_of
from interpbench.checkpoints.checkpoint_files import published_weights
from interpbench.checkpoints.fetch import GPT2, VOCABULARY
from interpbench.checkpoints.format import PAIRS, Checkpoint
from interpbench.checkpoints.pickles import MOST_PLAIN, read_plain, read_weights
from interpbench.checkpoints.record import FORMAT, ModelRecord, check_size, most_weights_bytes
from interpbench.circuits.graph import Graph
from interpbench.circuits.naming import edge_name, head_edge_name, node_at_hook, reader_at_hook
from interpbench.core.config import checked
from interpbench.core.errors import CheckpointError, HubError, InterpBenchError
from interpbench.core.files import read_bytes, read_json, sha256
from interpbench.tasks.catalogue import catalogue, get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs
from interpbench.tasks.task import RaspTask, Task
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.lens_settings import shape_of_settings
from interpbench.transformer.model import Transformer

IOI = {"ioi": "ioi_published_prompts", "ioi_next_token": "ioi_published_prompts"}
IOI["ioi_all_splits"] = IOI["ioi"]
"""Folders without a number, and their task."""
GRAPH = "interpbench_graph.json"
_FIXED = {
    **{"attn_only": False, "parallel_attn_mlp": False, "use_local_attn": False, "gated_mlp": False},
    **{"scale_attn_by_inverse_layer_idx": False, "use_attn_scale": True, "final_rms": False},
    **{"positional_embedding_type": "standard", "n_key_value_heads": None, "attn_scores_soft_cap": -1.0},
    **{"output_logits_soft_cap": -1.0},
}
_BUFFERS = re.compile(r"blocks\.\d+\.attn\.(mask|IGNORE)")


def load_published(folder: Path, certificate: bool = True) -> Checkpoint:
    """Reads one model of the published benchmark, with the certificate that `certify --save` put beside it.

    Raises:
        CheckpointError: one line, if a file is missing, damaged, refused, or not of the folder's task.
    """
    weights = published_weights(folder)
    if weights is None:
        raise CheckpointError(f"{folder} holds no published model: ll_model.pth is missing")
    task = _task(folder)
    suffix = weights.stem.removeprefix("ll_model")
    config = _beside(folder, f"ll_model_cfg{suffix}.pkl", "ll_model_cfg.pkl")
    if config is None:
        raise CheckpointError(f"{folder} has no ll_model_cfg.pkl")
    theirs = _shape(_read_plain(config), config)
    most = 4 * most_weights_bytes(theirs)  # in double precision, with TransformerLens's masks
    state = _fitting(read_weights(weights, most + theirs.n_layers * theirs.n_ctx**2), theirs, weights)
    network = _in_our_order(state, theirs, task, folder)
    alignment = align(task, network.cfg.graph)
    meta = next((path for path in sorted(folder.glob("meta*.json"))), None)
    training = {"published": read_json(meta, CheckpointError)} if meta else {}
    classes: Any = task.causal_model.classes
    record = ModelRecord(
        format=FORMAT,
        task=task.name,
        legacy_id=task.legacy_id,
        kind="published",
        shape=network.cfg,
        vocabulary=[*task.vocab, "BOS", "PAD"],
        classes=None if classes is None else list(classes),
        alignment={name: str(node) for name, node in alignment.nodes.items()},
        truth=find_truth(alignment).to_json(),
        training=training,
        versions={},
        seed=0,
        steps=0,
        seconds=0.0,
        sha256=sha256(read_bytes(weights, 2 * most, CheckpointError)),
    )
    found = certificate_of(folder, record) if certificate else None
    return Checkpoint(network.requires_grad_(False), record, found, folder)


def draw_published_pairs(folder: Path) -> Pairs:
    """Returns pairs of inputs for a published model, which has none: always the same ones, of its task."""
    return draw_pairs(_task(folder), PAIRS)


def claimed_edges(folder: Path, graph: Graph) -> list[str] | None:
    """Returns the head edges (`a0.h1->m1`) that a published folder says are the circuit, or None.

    Raises:
        CheckpointError: if the file is damaged, refused, or names edges that the network does not have.
    """
    edges, drawn = folder / "edges.pkl", _beside(folder, GRAPH)
    if edges.is_file():
        pairs = [(node_at_hook(a), reader_at_hook(b)) for a, b in _hook_pairs(_read_plain(edges), edges)]
        # what happens inside a head or an MLP is no edge between two
        named = {edge_name(node, reader.destination) for node, reader in pairs if node and reader}
        where = edges
    elif drawn is not None:
        named, where = {head_edge_name(name) for name in _in_graph(drawn)}, drawn
    else:
        return None
    legal = {
        edge_name(node, end)
        for end, row in zip(graph.destinations, graph.legal_head_edges)
        for node, exists in zip(graph.nodes, row)
        if exists
    }
    if named - legal:
        raise CheckpointError(f"{where} names {min(named - legal)[:99]!r}, which this network does not have")
    return sorted(named)


def _task(folder: Path) -> Task:
    name = IOI.get(folder.name, folder.name)
    if name not in catalogue():
        raise CheckpointError(
            f"{folder} holds a published model, but which? Name the folder as it is there: by the task's "
            "number, or ioi"
        )
    return get_task(name)


def _beside(folder: Path, *names: str) -> Path | None:
    """Returns the first of some files that is in a folder, or else in the one above it."""
    places = (place / name for place in (folder, folder.parent) for name in names)
    return next((path for path in places if path.is_file()), None)


def _read_plain(path: Path) -> object:
    return read_plain(read_bytes(path, MOST_PLAIN, CheckpointError), path)


def _shape(data: object, path: Path) -> TransformerConfig:
    """Translates a TransformerLens configuration, if our networks can do what it says."""
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} is not a configuration: it holds a {type(data).__name__}")
    for name, value in _FIXED.items():
        if name in data and (type(data[name]), data[name]) != (type(value), value):
            raise CheckpointError(f"{path} has {name}={_short(data[name])}, which no network here has")
    try:
        shape = shape_of_settings(data)
    except KeyError as error:
        raise CheckpointError(f"{path} is not a configuration: it lacks {error}") from None
    spread = data.get("initializer_range")
    init_std = spread if isinstance(spread, float) and not spread < 0 else None
    cfg = checked(TransformerConfig, {**shape, "init_std": init_std}, path, CheckpointError)
    try:
        check_size(cfg)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return cfg


def _fitting(state: Mapping[str, Tensor], cfg: TransformerConfig, path: Path) -> dict[str, Tensor]:
    """Returns the weights without TransformerLens's constants, if they are those of this shape."""
    kept = {name: value for name, value in state.items() if not _BUFFERS.fullmatch(name)}
    with torch.device("meta"):
        wanted = {name: value.shape for name, value in Transformer(cfg).state_dict().items()}
    for name in (*sorted(wanted.keys() - kept.keys()), *sorted(kept.keys() - wanted.keys())):
        how = "lacks" if name in wanted else "holds"
        raise CheckpointError(f"{path} does not fit its configuration: it {how} {name[:99]}")
    for name, shape in wanted.items():
        if kept[name].shape != shape or not kept[name].is_floating_point():
            found = f"{kept[name].dtype} {list(kept[name].shape)[:4]}"
            raise CheckpointError(
                f"{path} does not fit its configuration: {name} is {found}, not {list(shape)}"
            )
    return {name: value.detach().float() for name, value in kept.items()}


def _in_our_order(state: dict[str, Tensor], cfg: TransformerConfig, task: Task, folder: Path) -> Transformer:
    """Returns the network with token ids and classes of the task."""
    tokens, outputs = _gpt2_ids(task, folder) if task.name in IOI.values() else _tracr_ids(task)
    expected = (cfg.d_vocab, cfg.d_out) if task.name in IOI.values() else (len(tokens), len(outputs))
    if (cfg.d_vocab, cfg.d_out) != expected or max(tokens) >= cfg.d_vocab or max(outputs) >= cfg.d_out:
        raise CheckpointError(
            f"{folder} is not a model of task {task.name}: {cfg.d_vocab} tokens and {cfg.d_out} outputs "
            f"instead of {len(tokens)} and {len(outputs)}"
        )
    if cfg.n_ctx < task.length + 1:
        raise CheckpointError(f"{folder} is not a model of task {task.name}: its inputs are too short")
    if cfg.attention != task.attention:
        raise CheckpointError(
            f"{folder} is not a model of task {task.name}: its attention is {cfg.attention}"
        )
    state = {**state, "embed.W_E": state["embed.W_E"][tokens]}
    state |= {"unembed.W_U": state["unembed.W_U"][:, outputs], "unembed.b_U": state["unembed.b_U"][outputs]}
    fields = {**vars(cfg), "d_vocab": len(tokens), "d_out": len(outputs)}
    network = Transformer(TypeAdapter(TransformerConfig).validate_python(fields))
    network.load_state_dict(state)
    return network


def _tracr_ids(task: Task) -> tuple[list[int], list[int]]:
    """Returns Tracr's number of each of our tokens (BOS and PAD last), and of each of our classes."""
    assert isinstance(task, RaspTask)
    classes = task.causal_model.classes
    return _ranks((*task.vocab, "BOS", "PAD")), [0] if classes is None else _ranks(classes)


def _ranks(values: Sequence[object]) -> list[int]:
    """Returns each value's place in Tracr's order: by value, and by text where values do not compare."""

    def compare(a: Any, b: Any) -> int:
        try:
            return (a > b) - (a < b)
        except TypeError:
            return (str(a) > str(b)) - (str(a) < str(b))

    order = sorted(range(len(values)), key=cmp_to_key(lambda i, j: compare(values[i], values[j])))
    return [order.index(place) for place in range(len(values))]


def _gpt2_ids(task: Task, folder: Path) -> tuple[list[int], list[int]]:
    """Returns GPT-2's id of each of a prompt task's words, BOS and PAD, and of each class."""
    path = _beside(folder, VOCABULARY) or _cached_vocabulary(folder)
    try:
        entries = dict(read_json(path))
    except (InterpBenchError, ValueError, TypeError):
        raise CheckpointError(f"{path} is not GPT-2's vocabulary: damaged or not readable") from None
    classes = task.causal_model.classes or ()
    ids = {str(word): number for word, number in entries.items() if isinstance(number, int) and number >= 0}
    # the first word of a sentence, and what a word may be followed by, are without the space before
    names = {word: word if word in (",", ".", "Then") else f"Ġ{word}" for word in task.vocab}
    names |= {"BOS": "<|endoftext|>", "PAD": "<|endoftext|>"}
    for word, name in names.items():
        if name not in ids:
            raise CheckpointError(f"{path} is not GPT-2's vocabulary: it has no token for {word!r}")
    return [ids[name] for name in names.values()], [ids[names[value]] for value in classes]


def _cached_vocabulary(folder: Path) -> Path:
    """Returns GPT-2's vocabulary in the cache of downloads."""
    try:
        return GPT2.file(VOCABULARY, online=False)
    except HubError:
        raise CheckpointError(
            f"{folder} reads GPT-2's tokens: put GPT-2's {VOCABULARY} beside it, or load it from hf://"
        ) from None


def _hook_pairs(data: Any, path: Path) -> list[tuple[str, str]]:
    good = isinstance(data, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(hook) is str for hook in pair)
        for pair in data
    )
    if not good:
        raise CheckpointError(f"{path} is not a list of edges")
    return [(pair[0], pair[1]) for pair in data]


def _in_graph(path: Path) -> list[str]:
    """Returns the edges that an EAP-IG graph file marks."""
    data = read_json(path, CheckpointError)
    edges = data.get("edges") if isinstance(data, dict) else None
    if not isinstance(edges, dict) or not all(isinstance(edge, dict) for edge in edges.values()):
        raise CheckpointError(f"{path} is not a graph: it has no edges")
    return [name for name, edge in edges.items() if edge.get("in_graph") is True]


def _short(value: object) -> str:
    return repr(value)[:60] if isinstance(value, bool | int | float | str) else type(value).__name__
