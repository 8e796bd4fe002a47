"""What guides training: the values that linear probes read, and the keys that heads are to attend to.

Shapes: T positions with BOS, P = T - 1 without it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import MANY, CausalModel, Intervention, Read, Trace
from interpbench.training.objective import Objective
from interpbench.training.secrecy import Secrecy

SHARP = 20.0
"""The weight of the attention of a head that compares many keys. The probe of what it counts has it attend
unevenly, which tells counts apart better; with equal weights it gets neither even nor sharp (`python -m
benchmarks.many_keys`)."""
Edges = Mapping[tuple[str, Read], Intervention]
"""Interventions on what a single child sees of its parent, by the child's name and the read."""


class Guidance:
    """Builds the targets of probes and of attention for a pool of rows.

    Args:
        alignment: the nodes of the program's variables.
        objective: the weights of the losses; those that are 0 get no targets.
    """

    def __init__(self, alignment: Alignment, objective: Objective):
        self.objective = objective
        self.secrets = Secrecy(alignment).names if objective.secrecy else []
        self.causal_model: CausalModel = alignment.task.causal_model
        self.names = [name for names in alignment.aligned_nodes.values() for name in names]
        variables = self.causal_model.variables
        self.lookers = [name for name in self.names if variables[name].attends is not None]
        """The aligned variables that say where their head looks."""
        self.crossing = [name for name in self.lookers if variables[name].head_dimensions > MANY]
        """Those whose head compares so many keys that its queries and keys are taken from two rows, too."""
        self.sharp = SHARP
        """The weight of their attention."""

    def values(self, traces: Sequence[Trace], probing: bool) -> dict[str, np.ndarray]:
        """Returns the values of variables, `[P, world, row]`.

        Args:
            traces: the program's variables in each world.
            probing: whether probes are trained, which takes all aligned variables, and not only those of the
                nodes that are to write nothing else.
        """
        values: dict[str, np.ndarray] = {}
        for name in self.names if probing and self.objective.probe else self.secrets:
            value = np.stack([trace[name] for trace in traces])
            kind = np.float32 if value.dtype.kind == "f" else value.dtype
            values[name] = value.transpose(2, 0, 1).astype(kind)
        return values

    def attended(self, traces: Sequence[Trace], reads: Edges, batch: int) -> dict[str, np.ndarray]:
        """Returns the attention that is wanted of heads, `[P, T, world, row]`, times each query's weight.

        A query is to attend evenly to the keys that its variable attends to, but for a share of `bos_slack`
        at BOS; where the head attends to BOS as to a key (`Variable.attends_bos`), BOS has a key's share
        instead. Without such keys, it is to attend to BOS. Queries that attend to BOS alone have half of the
        weight of a variable's loss, all others together the other half. Of a head that compares many keys all
        queries weigh the same, `SHARP` together.

        Args:
            traces: the program's variables in each world.
            reads: the interventions on reads in the last world.
            batch: the number of rows of each world in a step.
        """
        if self.objective.attention_supervision == 0:
            return {}
        return {name: self._shares(name, traces, _edges(traces, reads), batch) for name in self.lookers}

    def crossed(self, traces: Sequence[Trace], reads: Edges, batch: int) -> dict[str, np.ndarray]:
        """Returns the same for the queries of each row and the keys of the next one of its step.

        Args:
            traces: the program's variables in each world.
            reads: the interventions on reads in the last world.
            batch: the number of rows of each world in a step.
        """
        if self.objective.attention_supervision == 0:
            return {}
        return {
            name: self._shares(
                name,
                traces,
                [
                    self._next_keys(name, *each, batch)
                    for each in zip(traces, _edges(traces, reads), strict=True)
                ],
                batch,
            )
            for name in self.crossing
        }

    def _shares(self, name: str, traces: Sequence[Trace], edges: Sequence[Edges], batch: int) -> np.ndarray:
        keys = [self.causal_model.attended(name, *each) for each in zip(traces, edges, strict=True)]
        chosen = np.stack(keys)  # [world, row, query, key]
        somewhere = np.any(chosen, axis=3)
        counted = self.causal_model.variables[name].attends_bos
        kept = 0.0 if counted else self.objective.bos_slack
        share = np.concatenate([~somewhere[..., None] | counted, chosen], 3).astype(np.float32)
        share /= share.sum(3, keepdims=True)
        share[somewhere] *= 1 - kept
        share[..., 0] += kept * somewhere
        many = name in self.crossing
        parts = [np.ones_like(somewhere)] if many else [~somewhere, somewhere]
        weight = self.sharp if many else 1 / len(parts)
        for rows in parts:
            count = rows.reshape(len(rows), rows.shape[1] // batch, -1).sum((0, 2)).clip(1)
            share[rows] *= weight / np.broadcast_to(count.repeat(batch)[:, None], rows.shape)[rows, None]
        return share.transpose(2, 3, 0, 1)

    def _next_keys(self, name: str, trace: Trace, edges: Edges, batch: int) -> Edges:
        """Returns interventions with which a head sees the next row's keys, and else what it saw before."""
        turned = dict(edges)
        for read in self.causal_model.variables[name].reads:
            if read.slot == "k":
                seen = self.causal_model.seen(name, read, trace, edges)
                rows = np.arange(len(seen)).reshape(-1, batch)
                following = seen[np.roll(rows, -1, 1).ravel()]
                turned[name, read] = Intervention(following, np.ones(len(seen), bool))
        return turned


def _edges(traces: Sequence[Trace], reads: Edges) -> list[Edges]:
    """Returns the interventions on reads in each world, of which only the last one has any."""
    return [*({} for _ in traces[1:]), reads]
