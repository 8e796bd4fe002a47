"""Runs auto-circuit's methods, on request, on a network and prompts that `benchmarks.discovery` has written.

It runs in an environment with auto-circuit and without this project. Its argument is a folder with:

* `hooked_transformer.json` and `hooked_transformer.safetensors`, the network;
* `prompts.safetensors`, which holds the token ids `clean` and `corrupted`, `[B, T]`, the position `end`,
  `[B]`, at which the output counts, and the network's answers there on both inputs, `answer` and `wrong`,
  `[B]`, for B prompts of T tokens;
* `edges.json`, the edges by their hooks and heads, in the order in which ACDC is to visit them.

Each line on stdin is a request, such as `{"method": "acdc", "threshold": 0.01}`. Each line on stdout is an
answer: CPU and wall-clock seconds, calls of the network, and a number for each edge. The first line has the
versions of libraries.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import torch
from auto_circuit.data import PromptDataLoader, PromptDataset
from auto_circuit.prune_algos.ACDC import acdc_prune_scores
from auto_circuit.prune_algos.mask_gradient import mask_gradient_prune_scores
from auto_circuit.prune_algos.subnetwork_probing import subnetwork_probing_prune_scores
from auto_circuit.utils.graph_utils import patchable_model, set_all_masks
from safetensors.torch import load_file
from transformer_lens import HookedTransformer, HookedTransformerConfig

torch.optim.adam = sys.modules["torch.optim.adam"]  # auto-circuit 1.0.1 asks for it; newer PyTorch hides it


class Worker:
    """The network as auto-circuit patches it, and one batch with all prompts."""

    def __init__(self, folder: Path):
        settings = json.loads((folder / "hooked_transformer.json").read_text())
        weights = load_file(folder / "hooked_transformer.safetensors")
        network = HookedTransformer(
            HookedTransformerConfig(
                **settings, use_attn_result=True, use_split_qkv_input=True, use_hook_mlp_in=True
            )
        )
        network.load_state_dict(weights)
        network.eval()
        self.model = patchable_model(network, factorized=True, slice_output="last_seq", separate_qkv=True)
        prompts = load_file(folder / "prompts.safetensors")
        ends = prompts["end"]
        self.model.out_slice = (torch.arange(len(ends)), ends)
        answers, wrong = (list(prompts[name][:, None]) for name in ("answer", "wrong"))
        data = PromptDataset(prompts["clean"], prompts["corrupted"], answers, wrong)
        self.prompts = PromptDataLoader(data, seq_len=None, diverge_idx=0, batch_size=len(ends))
        by_place = {
            (edge.dest.module_name, edge.dest.head_idx, edge.src.module_name, edge.src.head_idx): edge
            for edge in self.model.edges
        }
        self.edges = [by_place.pop(tuple(place)) for place in json.loads((folder / "edges.json").read_text())]
        assert not by_place, f"edges that the network of ours has not: {by_place}"
        self.model.edges = self.edges  # acdc sorts by layer, and sorting is stable
        self.calls = 0
        self.model.wrapped_model.register_forward_pre_hook(self._count)

    def _count(self, *unused: object) -> None:
        self.calls += 1

    def answer(self, method: str, **settings: float) -> dict[str, object]:
        """Runs a method, and returns its time, its calls of the network and its scores."""
        set_all_masks(self.model, 0.0)
        self.model.zero_grad()
        torch.manual_seed(0)
        self.calls = 0
        cpu, wall = time.process_time(), time.perf_counter()
        scores = getattr(self, method)(**settings)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        values = [float(scores[edge.dest.module_name][edge.patch_idx]) for edge in self.edges]
        return {"cpu": cpu, "wall": wall, "calls": self.calls, "values": values}

    def eap(self) -> dict[str, torch.Tensor]:
        """Returns the derivatives of the logit difference by the masks, on clean inputs."""
        return mask_gradient_prune_scores(self.model, self.prompts, None, "logit", "avg_diff", mask_val=0.0)

    def acdc(self, threshold: float) -> dict[str, torch.Tensor]:
        """Returns, for each edge, the threshold if ACDC removes it, and infinity if not."""
        return acdc_prune_scores(self.model, self.prompts, None, tao_exps=[0], tao_bases=[threshold])

    def edge_sp(self, steps: int, penalty: float, rate: float) -> dict[str, torch.Tensor]:
        """Returns the gates of edges after training; an open gate leaves the edge as it is."""
        return subnetwork_probing_prune_scores(
            self.model,
            self.prompts,
            None,
            learning_rate=rate,
            epochs=steps,
            regularize_lambda=penalty,
            tree_optimisation=True,
        )


def main() -> None:
    """Answers requests until stdin ends."""
    torch.set_num_threads(1)
    worker = Worker(Path(sys.argv[1]))
    names = ("auto-circuit", "transformer-lens", "torch")
    print(json.dumps({name: version(name) for name in names}), flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
