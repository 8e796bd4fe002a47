"""Trains masks with the published code of Li and Janson; see `ugs.py`."""

import re
from typing import Any

import torch
from theirs import serve, start

network, problem = start()
network = network.double()
network.cfg.dtype = torch.float64
L, H = network.cfg.n_layers, network.cfg.n_heads

# Their modules put masks of GPT-2's shape on a GPU when they are imported.
place = torch.Tensor.to
torch.Tensor.to = lambda self, where, *more: (
    self if str(where).startswith("cuda") else place(self, where, *more)
)  # type: ignore
from mask_samplers import EdgeMaskSampler  # noqa: E402
from pruners.EdgePruner import EdgePruner  # noqa: E402
from utils import MaskConfig, circuit_utils  # noqa: E402

torch.Tensor.to = place  # type: ignore

circuit_utils.n_layers, circuit_utils.n_heads, circuit_utils.device = L, H, "cpu"
circuit_utils.layers_to_prune = [(kind, layer) for layer in range(L) for kind in ("attn", "mlp")] + [
    ("mlp", L)
]
MaskConfig.edge_prune_mask = {
    "attn-attn": [torch.ones(1, 3, H, layer, H) for layer in range(L)],
    "mlp-attn": [torch.ones(1, 3, H, layer + 1) for layer in range(L)],
    "attn-mlp": [torch.ones(1, min(layer + 1, L), H) for layer in range(L + 1)],
    "mlp-mlp": [torch.ones(1, layer + 1) for layer in range(L + 1)],
}


def filtered(masks: dict[str, list[torch.Tensor]], bsz: int) -> dict[str, list[torch.Tensor]]:
    """Filters masks, one row at a time: of several rows, their sums of edges into an MLP mix the rows."""
    rows = [
        circuit_utils.prune_dangling_edges({kind: [x[[row]] for x in some] for kind, some in masks.items()})[
            0
        ]
        for row in range(bsz)
    ]
    return {kind: [torch.cat(x) for x in zip(*(row[kind] for row in rows))] for kind in masks}


EdgeMaskSampler.prune_dangling_edges = filtered


def where(edge: str) -> tuple[str, int, tuple[int, ...]]:
    """Returns the place of an edge in their tensors: the group, the tensor in it, and the index in that."""
    source, target = edge.split("->")
    head = re.fullmatch(r"a(\d+)\.h(\d+)", source)
    before = (int(head[1]), int(head[2])) if head else (0 if source == "input" else int(source[1:]) + 1,)
    kind = "attn" if head else "mlp"
    reader = re.fullmatch(r"a(\d+)\.h(\d+)<([qkv])>", target)
    if reader:
        return f"{kind}-attn", int(reader[1]), ("qkv".index(reader[3]), int(reader[2]), *before)
    return f"{kind}-mlp", L if target == "logits" else int(target[1:]), before


class Training:
    """A training with their sampler, pruner and optimisers."""

    def __init__(
        self, edges: list[str], batch: int, samples: int, penalty: float, rate: float, constants_rate: float
    ):
        cfg = MaskConfig.EdgeInferenceConfig(network.cfg, "cpu", "", batch_size=batch, init_param=1)
        cfg.n_samples, cfg.lamb = samples, penalty
        cfg.init_params = {kind: [x.double() for x in some] for kind, some in cfg.init_params.items()}
        self.places, self.rows = [where(edge) for edge in edges], batch * samples
        self.sampler = EdgeMaskSampler.EdgeMaskUnifSampler(cfg, node_reg=min(0.5 * penalty, 2e-4))
        self.means = self._means()
        self.pruner = EdgePruner(network, cfg, self.sampler, init_modes=self.means)
        self.pruner.add_cache_hooks()
        self.pruner.add_patching_hooks()
        for parameter in network.parameters():
            parameter.requires_grad = False
        self.masks = torch.optim.AdamW(self.sampler.parameters(), lr=rate, weight_decay=0, betas=(0.9, 0.995))
        self.modes = [self.pruner.modal_attention, self.pruner.modal_mlp]
        self.constants = torch.optim.AdamW(self.modes, lr=constants_rate, weight_decay=0)

    def _means(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the mean outputs on corrupted inputs: of heads, and of embedding and MLPs."""
        with torch.no_grad():
            _, cache = network.run_with_cache(problem["corrupted"])
        heads = torch.stack([cache["z", layer].mean((0, 1)) for layer in range(L)])
        others = [cache["resid_pre", 0], *(cache["mlp_out", layer] for layer in range(L))]
        return heads, torch.stack([other.mean((0, 1)) for other in others])

    def step(self, rows: list[int], seed: int) -> dict[str, Any]:
        """Takes a step of their script, on the given rows, with uniform random numbers drawn from a seed."""
        shape = self.rows, len(self.places)
        drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        waiting = []
        for kind, some in self.sampler.sampling_params.items():
            for number, tensor in enumerate(some):
                uniform = torch.zeros(self.rows, *tensor.shape[:-1], dtype=torch.float64)
                for edge, (group, which, index) in enumerate(self.places):
                    if (group, which) == (kind, number):
                        uniform[(slice(None), *index)] = drawn[:, edge]
                waiting.append(uniform)
        at = problem["scored"][rows].int().argmax(1)
        at = torch.where(problem["scored"][rows].any(1), at, 0)
        self.masks.zero_grad()
        self.constants.zero_grad()
        rand, torch.rand = torch.rand, lambda *size, **how: waiting.pop(0)
        try:
            loss = self.pruner(problem["clean"][rows], at, None, timing=False, print_loss=False)
        finally:
            torch.rand = rand
        loss.backward()
        self.sampler.clip_grad(5)
        self.masks.step()
        self.constants.step()
        theta = [
            self.sampler.sampling_params[group][which][(*index, 0)].item()
            for group, which, index in self.places
        ]
        moved = [(now - mean).flatten() for now, mean in zip(self.modes, self.means)]
        return {"theta": theta, "constants": torch.cat(moved).tolist()}


made: dict[str, Training] = {}


def begin(**settings: Any) -> None:
    """Starts a training."""
    made["training"] = Training(**settings)


serve({"start": begin, "step": lambda **how: made["training"].step(**how)})
