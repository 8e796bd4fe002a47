"""Decomposes a network with the code of Hsu et al., `prop_GPT` of cdt_source_to_target.py; see `cdt.py`.

Their module is for GPT-2. For networks of this project, the worker replaces the activation function;
LayerNorm, by none or by one without weights and with the network's epsilon; and for bidirectional attention
the mask, by one that masks nothing. One of their modules has a `type` statement of Python 3.12, which is read
as an assignment. Everything else is their code.

Letters of shapes: N heads, B pairs, T positions, V output classes.
"""

import importlib
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file
from theirs import serve, start

network, problem = start()
network = network.double()
network.cfg.dtype = torch.float64
torch.set_default_dtype(torch.float64)  # they make new tensors of that of means
L, H = network.cfg.n_layers, network.cfg.n_heads


class Earlier(importlib.machinery.SourceFileLoader):
    """An import loader that reads `type A = B` as `A = B`."""

    def source_to_code(self, data: Any, path: Any, **options: Any) -> Any:
        """Compiles the source of a module."""
        return super().source_to_code(re.sub(rb"(?m)^type (?=\w+ =)", b"", data), path, **options)


def imported() -> Any:
    """Returns their module, imported."""
    name = "pyfunctions.wrappers"
    folder = importlib.import_module("pyfunctions").__path__[0]
    loader = Earlier(name, str(Path(folder) / "wrappers.py"))
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return importlib.import_module("pyfunctions.cdt_source_to_target")


def normal(norm: torch.nn.Module) -> SimpleNamespace:
    """Returns the attributes of a LayerNorm that their code reads."""
    ones, zeros = torch.ones(network.cfg.d_model), torch.zeros(network.cfg.d_model)
    return SimpleNamespace(
        weight=getattr(norm, "w", ones), bias=getattr(norm, "b", zeros), eps=network.cfg.eps
    )


code = imported()
code.NewGELUActivation = lambda: network.blocks[0].mlp.act_fn
code.GPTLayerNormWrapper = normal
TOLERANT = (code.prop_linear_core, code.prop_attention_probs_tmp, code.prop_layer_norm)
"""The functions of their code that split a bias; the last argument of each is the number added to sizes."""
if network.cfg.normalization_type is None:
    code.prop_layer_norm = lambda relevant, rest, _norm: (relevant, rest)
    network.ln_final = torch.nn.Identity()


def mask(length: int) -> torch.Tensor:
    """Returns the mask, which their code adds to attention scores."""
    if network.cfg.attention_dir == "bidirectional":
        return torch.zeros(1, 1, 1, length)
    seen = torch.ones(1, length, dtype=torch.long)
    return code.get_extended_attention_mask(seen, seen.shape, network, None)


@torch.no_grad()
def decompose(ablation: str, tolerance: float) -> str:
    """Returns the file with `logits`, `[N, B, T, V]`, and `shares`, `[N, N]`, of the heads.

    The logits are those of the relevant part, for each head. A share is that of the first head's relevant
    part in what the second head gathers, as the ratio of mean sizes in their notebooks, averaged over
    positions.
    """
    for function in TOLERANT:
        function.__defaults__ = (*function.__defaults__[:-1], tolerance)
    tokens, length = problem["clean"], problem["clean"].shape[1]
    _, cache = network.run_with_cache(problem["corrupted"])
    gathered = torch.stack([cache[f"blocks.{layer}.attn.hook_z"] for layer in range(L)])
    patch = (gathered.mean(1) if ablation == "mean_position" else gathered).flatten(-2)
    heads = [
        tuple(code.Node(layer, place, head) for place in range(length))
        for layer in range(L)
        for head in range(H)
    ]
    logits, shares = [], []
    for source in heads:
        (out,), (passed,), _, _ = code.prop_GPT(
            tokens,
            mask(length),
            network,
            [source],
            target_nodes=[node for nodes in heads for node in nodes],
            device="cpu",
            mean_acts=patch,
            set_irrel_to_mean=True,
        )
        ratios = {
            node: relevant.abs().mean() / (relevant.abs().mean() + rest.abs().mean())
            for node, relevant, rest in zip(passed.target_nodes, passed.rels, passed.irrels)
        }
        logits.append(torch.from_numpy(out.rel))
        shares.append(torch.tensor([[ratios[node] for node in nodes] for nodes in heads]).mean(1))
    file = Path(sys.argv[1]) / "decomposed.safetensors"
    save_file({"logits": torch.stack(logits), "shares": torch.stack(shares)}, file)
    return str(file)


serve({"decompose": decompose})
