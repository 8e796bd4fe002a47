"""Runs the published ACDC; see `acdc.py`."""

import sys
from types import ModuleType
from typing import Any

import torch
from theirs import serve, start

network, problem = start()
network = network.double()
network.cfg.dtype = torch.float64
graphics = ModuleType("acdc.acdc_graphics")  # needs Graphviz, for pictures
graphics.show = graphics.log_metrics_to_wandb = lambda *args, **settings: None  # type: ignore[attr-defined]
sys.modules["acdc.acdc_graphics"] = graphics
from acdc import TLACDCExperiment as published  # noqa: E402
from acdc.TLACDCEdge import EdgeType  # noqa: E402


@torch.no_grad()
def acdc(threshold: float, edges: list[list[Any]], numerical: bool) -> list[bool]:
    """Returns which edges are in the circuit at a threshold.

    Args:
        threshold: the threshold τ.
        edges: for each edge the hook and head of the reader, and the hook and head of the writer; the head is
            None for embedding, MLPs and logits.
        numerical: whether the output is a number, for which the squared difference is used instead of KL.
    """
    scored = problem["scored"].double()
    clean = network(problem["clean"])

    def metric(logits: torch.Tensor) -> torch.Tensor:
        if numerical:
            each = (logits - clean)[..., 0].square()
        else:
            wanted = clean.log_softmax(-1)
            each = (wanted.exp() * (wanted - logits.log_softmax(-1))).sum(-1)
        return ((each * scored).sum(1) / scored.sum(1).clamp(min=1)).mean()

    sizes = network.cfg.d_vocab
    network.cfg.d_vocab = min(sizes, network.cfg.n_ctx)  # they run so many token ids, to see hooks' names
    experiment = published.TLACDCExperiment(
        network,
        problem["clean"],
        problem["corrupted"],
        threshold,
        metric,
        indices_mode="normal",
        names_mode="normal",
    )
    network.cfg.d_vocab = sizes
    while experiment.current_node is not None:
        if experiment.current_node.incoming_edge_type == EdgeType.DIRECT_COMPUTATION:
            experiment.increment_current_node()
        else:
            experiment.step()
    network.reset_hooks()
    kept = {
        (child, at.hashable_tuple[-1], parent, writer.hashable_tuple[-1])
        for (child, at, parent, writer), edge in experiment.corr.all_edges().items()
        if edge.present
    }
    return [tuple(edge) in kept for edge in edges]


serve({"acdc": acdc})
