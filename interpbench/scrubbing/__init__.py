"""Causal scrubbing (Chan et al. 2022): how much of a network's behaviour a hypothesis keeps.

* `hypothesis`: what a hypothesis says: claims about nodes, and edges between them.
* `classes`, `path_draws`: which inputs agree on a claim, and the draws of inputs for each path.
* `computational_graph`: scrubs any graph of functions, path by path; `network_graph` makes one of a network.
* `residual`: scrubs a transformer, with one batched call for each component; `positions`, by position.
* `recovered`: what is left of the behaviour: the percentage of the loss that is recovered, and its interval.
* `vacuity`, `refine`: how much a claim says on the inputs at hand, and which further claim would matter.
* `program_claims`: the hypotheses that follow from a program.
"""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation, scrub_graph
    from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
    from interpbench.scrubbing.path_draws import PathDraws
    from interpbench.scrubbing.residual import ScrubbedNetwork

__all__ = [
    "ComputationalGraph",
    "Hypothesis",
    "NodeClaim",
    "Operation",
    "PathDraws",
    "ScrubbedNetwork",
    "scrub_graph",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(
            ("ComputationalGraph", "Operation", "scrub_graph"), "interpbench.scrubbing.computational_graph"
        ),
        **dict.fromkeys(("Hypothesis", "NodeClaim"), "interpbench.scrubbing.hypothesis"),
        "PathDraws": "interpbench.scrubbing.path_draws",
        "ScrubbedNetwork": "interpbench.scrubbing.residual",
    },
)
