"""Causal scrubbing (Chan et al. 2022): how much of a network's behaviour a hypothesis keeps.

* `hypothesis`: what a hypothesis says: claims about nodes, and edges between them.
* `classes`, `draws`: which inputs agree on a claim, and the draws of inputs for each path.
* `computational_graph`: scrubs any graph of functions, path by path.
* `residual`: scrubs a transformer, with one batched call for each component.
* `recovered`: what is left of the behaviour: the percentage of the loss that is recovered, and its interval.
* `vacuity`: how much a claim says on the inputs at hand.
* `program_claims`: the hypotheses that follow from a program.
"""
