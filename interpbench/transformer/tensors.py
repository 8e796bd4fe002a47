"""Types of the kernel's tensors: what they hold and how their axes are called, as jaxtyping annotations.

Axes of one name have one length in all arguments and results of a call; `_` is an axis that may differ. Rows
are last, contiguous in memory. `make test` has them checked at run time (`Makefile`); elsewhere they cost
nothing.
"""

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

Tokens = Int[Tensor, "row pos"]
"""Token ids of inputs, BOS first."""
Residual = Float[Tensor, "d_model pos row"]
"""The residual stream at one place in the network, or what one node writes to it."""
SharedRows = Float[Tensor, "d_model pos _"]
"""The residual stream of the rows that all readers of a step see alike."""
Logits = Float[Tensor, "output pos row"]
"""Logits of the output classes; for a numerical output, its one number."""
GroupedLogits = Float[Tensor, "output _ group row"]
"""Logits of several circuits, or other groups of rows, on the same inputs."""
LogitRows = Float[Tensor, "rows pos output"]
"""Logits with the axes in TransformerLens's order."""
WriterOutputs = Float[Tensor, "writer d_model pos row"]
"""What nodes write to the residual stream, in the graph's order of nodes."""
ReaderInputs = Float[Tensor, "reader d_model pos _"]
"""An input of its own for each reader, in the graph's order of readers."""
Projections = Float[Tensor, "qkv head d_head pos _"]
"""Queries (divided by √d_head), keys and values of a layer's heads."""
Patterns = Float[Tensor, "head query key _"]
"""Attention patterns of a layer's heads."""
Patch = Float[Tensor, "writer d_model pos *circuit row"]
"""The values that are patched in: what nodes write in other runs, or an ablation; one or one a circuit."""
EdgeMasks = Bool[np.ndarray, "circuit reader writer"]
"""The edges that each circuit patches: their reader sees the patch in place of what their node writes."""
NodeMasks = Bool[np.ndarray, "circuit writer"]
"""The nodes that each circuit patches: the patch takes the place of their whole output."""
SoftEdgeMasks = Float[Tensor, "circuit reader writer"]
"""How much of a patch, from 0 to 1, each circuit's readers see in place of each node."""
PairTokens = Int[Tensor, "example pos"]
"""Token ids of the clean or corrupted inputs of a problem, BOS first."""
PairMask = Bool[Tensor, "example pos"]
"""The positions at which the output of each pair's clean input counts; never BOS."""
ScoredPositions = Bool[Tensor, "pos example"]
"""The positions at which each example's output counts; never BOS."""
ReferenceLogits = Float[Tensor, "output pos example"]
"""Logits of the clean or the corrupted run, with which a metric compares others."""
CircuitsLogits = Float[Tensor, "output pos *circuit example"]
"""Logits that a metric judges, of one circuit or of several."""
PositionMetrics = Float[Tensor, "pos *circuit example"]
"""A metric at each position."""
ExampleMetrics = Float[Tensor, "*circuit example"]
"""A metric of each example, the mean over its scored positions."""
AnswerCodes = Int[Tensor, "pos example"]
"""Codes of output classes."""
AnswerSigns = Float[Tensor, "pos example"]
"""Signs in which a numerical output has to move."""
