"""Writes models in the layout of the published InterpBench files, which are pickles."""

import dataclasses
import json
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from tracr.craft.bases import VectorSpaceWithBasis

from interpbench.checkpoints.hooked import hooked_config, hooked_state
from interpbench.tasks.task import Task
from interpbench.transformer.model import Transformer

MODULE = "transformer_lens.HookedTransformerConfig"


def published_config(model: Transformer, device: Any = "cpu") -> dict[str, Any]:
    """Returns a configuration as TransformerLens 1 and 2 fill it in."""
    config = hooked_config(model)
    return {
        **{**config, "device": device, "dtype": torch.float32, "model_name": "custom"},
        **{"attn_only": False, "parallel_attn_mlp": False, "positional_embedding_type": "standard"},
        **{"use_attn_result": True, "use_attn_scale": True, "attn_scale": config["d_head"] ** 0.5},
        **{"use_split_qkv_input": True, "use_hook_mlp_in": True, "use_local_attn": False, "final_rms": False},
        **{"scale_attn_by_inverse_layer_idx": False, "gated_mlp": False, "n_key_value_heads": None},
        **{"init_mode": "gpt2", "initializer_range": 0.15, "init_weights": True, "tokenizer_name": None},
        **{"attn_types": None, "n_params": 123, "default_prepend_bos": True, "output_logits_soft_cap": -1.0},
    }


def config_object(config: dict[str, Any]) -> Any:
    """Returns the configuration as an object of a class that is not installed here."""
    made = dataclasses.make_dataclass("HookedTransformerConfig", list(config))
    made.__module__ = MODULE
    return made(**config)


def pickled(value: Any, protocol: int | None = None) -> bytes:
    """Returns a value as a pickle; the module of configuration objects exists only while it is made."""
    module = ModuleType(MODULE)
    module.HookedTransformerConfig = type(value)  # type: ignore[attr-defined]
    before = sys.modules.get(MODULE)
    sys.modules[MODULE] = module
    try:
        return pickle.dumps(value, protocol)
    finally:
        sys.modules.pop(MODULE)
        if before is not None:
            sys.modules[MODULE] = before


def tracr_order(model: Transformer, task: Task) -> dict[str, torch.Tensor]:
    """Returns the state dict with tokens and classes in Tracr's order, and TransformerLens's constants."""

    def order(values: Iterable[Any]) -> list[int]:
        values = list(values)
        basis = VectorSpaceWithBasis.from_values("x", values).basis
        return [values.index(direction.value) for direction in basis]

    state = hooked_state(model)
    state["embed.W_E"] = state["embed.W_E"][order((*task.vocab, "BOS", "PAD"))]
    if task.causal_model.classes is not None:
        classes = order(task.causal_model.classes)
        state["unembed.W_U"], state["unembed.b_U"] = (
            state["unembed.W_U"][:, classes],
            state["unembed.b_U"][classes],
        )
    return state


def save_state(state: dict[str, torch.Tensor], path: Path) -> None:
    """Saves a state dict in the format of `torch.save`."""
    ordered = OrderedDict(state)
    ordered._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    torch.save(ordered, path)


def write_published(
    folder: Path,
    model: Transformer,
    task: Task,
    edges: Any = (),
    suffix: str = "",
    as_object: bool = False,
    device: Any = "cpu",
    protocol: int | None = None,
) -> Path:
    """Writes a model in the layout of the published benchmark and returns its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_state(tracr_order(model, task), folder / f"ll_model{suffix}.pth")
    config: Any = published_config(model, device)
    config = config_object(config) if as_object else config
    (folder / f"ll_model_cfg{suffix}.pkl").write_bytes(pickled(config, protocol))
    (folder / f"meta{suffix}.json").write_text(json.dumps({"lr": 1e-3, "strict_weight": 0.4}))
    (folder / "edges.pkl").write_bytes(pickle.dumps(list(edges), protocol))
    return folder


def write_mib(folder: Path, model: Transformer, vocabulary: dict[str, int], in_graph: Iterable[str]) -> Path:
    """Writes a model in MIB's layout, whose tokens are GPT-2's, and returns the folder of its weights."""
    inside = folder / "ioi_all_splits"
    inside.mkdir(parents=True)
    save_state(hooked_state(model), inside / "ll_model_100_100_80.pth")
    (folder / "ll_model_cfg.pkl").write_bytes(pickled(config_object(published_config(model))))
    graph = {"cfg": {"n_layers": model.cfg.n_layers}, "nodes": {}, "edges": {}}
    for edge in model.cfg.graph.edges:
        name = str(edge).replace("embed", "input")
        graph["edges"][name] = {"score": 0.0, "in_graph": name in in_graph}  # type: ignore[index]
    (folder / "interpbench_graph.json").write_text(json.dumps(graph))
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    return inside
