"""Decoys on networks compiled by hand: which attribution method is fooled by what (the NeuroTrace benchmark).

* `hidden_layer`: networks with one hidden layer, y = v · tanh(W x + b), and their gradients.
* `decoy_circuits`: the circuits: weights, the law of the inputs, which features are causal, what is planted.
* `feature_methods`: the methods, a function each, and the registry to which a user's own are added.
* `expectations`: what methods say of the whole population of inputs, by integrals over a normal density.
* `decoy_scores`: a method on a circuit: scores, AUROC, scrambled labels, and the table over seeds.
* `dissociation`: what theory says of each cell of that table, and whether it holds.
"""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.decoys.decoy_circuits import DecoyCircuit, decoy_circuit
    from interpbench.decoys.decoy_scores import Attribution, attribute
    from interpbench.decoys.expectations import expected_scores
    from interpbench.decoys.feature_methods import attribution
    from interpbench.decoys.hidden_layer import HiddenLayer

__all__ = [
    "Attribution",
    "DecoyCircuit",
    "HiddenLayer",
    "attribute",
    "attribution",
    "decoy_circuit",
    "expected_scores",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        **dict.fromkeys(("DecoyCircuit", "decoy_circuit"), "interpbench.decoys.decoy_circuits"),
        **dict.fromkeys(("Attribution", "attribute"), "interpbench.decoys.decoy_scores"),
        "expected_scores": "interpbench.decoys.expectations",
        "attribution": "interpbench.decoys.feature_methods",
        "HiddenLayer": "interpbench.decoys.hidden_layer",
    },
)
