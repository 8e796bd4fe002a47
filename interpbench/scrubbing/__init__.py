"""Causal scrubbing (Chan et al. 2022): how much of a network's behaviour a hypothesis keeps.

A hypothesis by hand, in twenty lines, is in the package's README.

* `hypothesis`: what a hypothesis says: claims about nodes, and edges between them.
* `program_claims`, `by_hand`: the hypotheses that follow from a program, and those in a file of the user's.
* `classes`, `soft_classes`: which inputs agree on a claim, exactly or the more the closer their values are.
* `donors`: further inputs, which agree with those with whom no other does.
* `path_draws`: the draws of inputs for each path.
* `computational_graph`: scrubs any graph of functions, path by path; `network_graph` makes one of a network,
  and `rewrites` gives it the nodes that a hypothesis is about.
* `residual`: scrubs a transformer, with one batched call for each component; `pools` where there are too many
  paths, `positions` by position. `claim_values` is what a component writes, given what it reads.
* `recovered`: what is left of the behaviour: the percentage of the loss that is recovered, and its interval.
* `vacuity`: how much a claim says on the inputs at hand.
* `refine`, `scrub_adversary`: what two hypotheses say together, and which further claim would matter.
"""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.scrubbing.by_hand import circuit_hypothesis
    from interpbench.scrubbing.classes import Classes
    from interpbench.scrubbing.computational_graph import ComputationalGraph, Operation, scrub_graph
    from interpbench.scrubbing.hypothesis import Hypothesis, NodeClaim
    from interpbench.scrubbing.path_draws import PathDraws
    from interpbench.scrubbing.refine import join
    from interpbench.scrubbing.residual import ScrubbedNetwork
    from interpbench.scrubbing.scrub_adversary import Refinement, refinements

__all__ = [
    "Classes",
    "ComputationalGraph",
    "Hypothesis",
    "NodeClaim",
    "Operation",
    "PathDraws",
    "Refinement",
    "ScrubbedNetwork",
    "circuit_hypothesis",
    "join",
    "refinements",
    "scrub_graph",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(
            ("ComputationalGraph", "Operation", "scrub_graph"), "interpbench.scrubbing.computational_graph"
        ),
        **dict.fromkeys(("Hypothesis", "NodeClaim"), "interpbench.scrubbing.hypothesis"),
        **dict.fromkeys(("Refinement", "refinements"), "interpbench.scrubbing.scrub_adversary"),
        "Classes": "interpbench.scrubbing.classes",
        "PathDraws": "interpbench.scrubbing.path_draws",
        "ScrubbedNetwork": "interpbench.scrubbing.residual",
        "circuit_hypothesis": "interpbench.scrubbing.by_hand",
        "join": "interpbench.scrubbing.refine",
    },
)
