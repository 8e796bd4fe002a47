"""What a single head or MLP of a network's widths can compute, if everything around it is ideal.

Each aligned node is trained alone: it reads a free vector for each value of its variables' parents, instead
of what other nodes write, and free linear probes read its variables off what it writes. Parents' values come
from two inputs each, as interventions mix them, and apart for queries, keys and values, as patched edges do.
Heads are told where to look. What a node does not learn by itself is not to be expected of a network of the
same widths, where vectors are shared and other nodes write into the same residual stream.

Shapes: D d_model, T positions with BOS, P = T - 1, N rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from interpbench.alignment.alignment import Alignment
from interpbench.causal.model import NONE, Variable, has_value
from interpbench.circuits.naming import Node, Slot
from interpbench.core import seeds
from interpbench.tasks.task import Task
from interpbench.training.linear_probes import Probes
from interpbench.training.losses import attention_loss
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.layers import Block

BATCH, TRAINED, TESTED = 256, 64, 4096
"""The rows of a step, the number of steps whose rows are drawn at once, and the rows that are tested."""
RATE = 1e-2
"""The learning rate at the start; it falls to 0 along a cosine."""


@dataclass(frozen=True)
class Capacity:
    """How well one node computes its variables.

    Attributes:
        node: the node.
        right: the share of held-out rows with the right value at every position, by variable.
    """

    node: Node
    right: Mapping[str, float]


def capacities(
    alignment: Alignment, cfg: TransformerConfig, steps: int = 3000, seed: int = 0
) -> Iterator[Capacity]:
    """Yields how well each aligned node can compute its variables, in layer order.

    Args:
        alignment: the nodes of the program's variables.
        cfg: the configuration of the network; its widths, activation and attention are what counts.
        steps: the number of training steps of each node.
        seed: the seed of initial weights and of draws.
    """
    for node in alignment.aligned_nodes:
        yield _capacity(alignment, cfg, node, steps, seed)


def _capacity(alignment: Alignment, cfg: TransformerConfig, node: Node, steps: int, seed: int) -> Capacity:
    alone = _Alone(alignment, cfg, node, seed)
    optimizer = torch.optim.Adam(alone.parameters(), lr=RATE, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for first in range(0, steps, TRAINED):
        rng = seeds.generator(seed, "capacity", str(node), first)
        count = min(TRAINED, steps - first)
        drawn = alone.draw(rng, count * BATCH, held_out=False)
        for step in range(count):
            rows = slice(step * BATCH, (step + 1) * BATCH)
            optimizer.zero_grad()
            loss = alone.loss(drawn, rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(alone.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return Capacity(node, alone.right(seeds.generator(seed, "capacity", str(node), "tested")))


class _Rows(NamedTuple):
    """Rows for a node.

    Attributes:
        parents: the values of its variables' parents, `[P, N]` each, by slot and name.
        values: the values of its variables, `[P, N]` each, by name.
        attended: the attention that is wanted of its head, `[P, T, N]` (query, key); None if nothing says it.
    """

    parents: dict[tuple[str, str], Tensor]
    values: dict[str, Tensor]
    attended: Tensor | None


class _Alone(nn.Module):
    """A node with free vectors before it and free probes after it.

    Args:
        alignment: the nodes of the program's variables.
        cfg: the configuration of the network.
        node: the node.
        seed: the seed of the initial weights.
    """

    def __init__(self, alignment: Alignment, cfg: TransformerConfig, node: Node, seed: int):
        super().__init__()
        self.task: Task = alignment.task
        model = self.task.causal_model
        names = alignment.variables_at(node)
        self.variables: list[Variable] = [model.variables[name] for name in names]
        self.is_head = node.head is not None
        generator = torch.Generator().manual_seed(seed)
        here = replace(cfg, n_heads=1, normalization=None)
        self.block = Block(here)
        for weight in self.block.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, 0, weight.shape[-2] ** -0.5, generator=generator)
        reads = [read for variable in self.variables for read in variable.reads]
        self.slots: tuple[Slot, ...] = ("q", "k", "v") if self.is_head else ("mlp",)
        self.anywhere = {read.parent for read in reads if read.slot is None}
        given = {read.parent for read in reads} - set(names)
        self.parents = [name for name in model.variables if name in given]
        self.codes = nn.ParameterList()
        for name in self.parents:
            values = model.variables[name].values
            size = 3 if values is None else len(values) + 1  # of a number: its slope, its offset, and None
            self.codes.append(nn.Parameter(torch.empty(cfg.d_model, size).normal_(0, 1, generator=generator)))
        self.bos = nn.Parameter(torch.empty(cfg.d_model, 1, 1).normal_(0, 1, generator=generator))
        self.probes = Probes(alignment, cfg.d_model, seed, names)

    def draw(self, rng: np.random.Generator, rows: int, held_out: bool) -> "_Rows":
        """Draws the values of parents, those of the node's variables, and where its head is to look."""
        task, model = self.task, self.task.causal_model
        traces = []
        for _ in range(2):
            tokens = task.domain.draw(rng, rows, held_out)
            tokens[: rows // 2] = task.strata.draw(rng, rows // 2, held_out)
            traces.append(model.run(tokens[rng.permutation(rows)]))
        drawn: dict[tuple[str, str], np.ndarray] = {}
        for name in self.parents:
            for slot in self.slots:
                together = name in self.anywhere and slot != self.slots[0]
                value = np.where(rng.random((rows, 1)) < 0.5, traces[0][name], traces[1][name])
                drawn[slot, name] = drawn[self.slots[0], name] if together else value
        values, looks = dict[str, np.ndarray](), list[np.ndarray]()
        for variable in self.variables:
            reads = [(read.slot or self.slots[0], read.parent) for read in variable.reads]
            given = [values[name] if name in values else drawn[slot, name] for slot, name in reads]
            values[variable.name] = variable.mechanism(*given)
            if variable.attends is not None:
                chosen = variable.attends(*given)
                bos = ~chosen.any(2, keepdims=True) | variable.attends_bos
                share = np.concatenate([bos, chosen], 2).astype(np.float32)
                looks.append((share / share.sum(2, keepdims=True)).transpose(1, 2, 0))

        def tensor(array: np.ndarray) -> Tensor:
            kind = np.float32 if array.dtype.kind == "f" else np.int64
            return torch.from_numpy(np.ascontiguousarray(array.T).astype(kind))

        return _Rows(
            {place: tensor(array) for place, array in drawn.items()},
            {variable.name: tensor(values[variable.name]) for variable in self.variables},
            torch.from_numpy(looks[0].copy()) if looks else None,
        )

    def forward(self, parents: Mapping[tuple[str, str], Tensor]) -> tuple[Tensor, Tensor | None]:
        """Returns what the node writes, `[D, T, N]`, given parents' values `[P, N]`, and its attention."""
        if not self.is_head:
            return self.block.mlp(self._stream(self.slots[0], parents)), None
        attention = self.block.attn
        q, k, v = attention.project_each(torch.stack([self._stream(slot, parents) for slot in self.slots]))
        pattern = attention.pattern(q, k)
        return attention.write(attention.mix(pattern, v))[0], pattern[0]

    def _stream(self, slot: str, parents: Mapping[tuple[str, str], Tensor]) -> Tensor:
        """Returns what an input of the node sees, `[D, T, N]`: the vectors of all parents' values."""
        codes = [self._coded(parents[slot, name], code) for name, code in zip(self.parents, self.codes)]
        x = torch.stack(codes).sum(0)
        return torch.cat([self.bos.expand(-1, 1, x.shape[2]), x], 1)

    @staticmethod
    def _coded(values: Tensor, code: Tensor) -> Tensor:
        """Returns the vectors of values `[P, N]`, `[D, P, N]`."""
        if values.is_floating_point():
            there = ~values.isnan()
            number = code[:, 0, None, None] * values.nan_to_num() + code[:, 1, None, None]
            return torch.where(there, number, code[:, 2, None, None])
        places = torch.where(values == NONE, code.shape[1] - 1, values)
        one_hot = nn.functional.one_hot(places.flatten(), code.shape[1]).to(code)
        return (code @ one_hot.T).view(len(code), *values.shape)

    def loss(self, drawn: "_Rows", rows: slice) -> Tensor:
        """Returns the loss of the probes on some rows, and that of attention where the program says it."""
        written, pattern = self.forward({place: x[:, rows] for place, x in drawn.parents.items()})
        wanted = {name: value[:, rows] for name, value in drawn.values.items()}
        loss = self.probes.losses(dict.fromkeys(self.probes.nodes.values(), written), wanted).sum()
        if pattern is None or drawn.attended is None:
            return loss
        shares = drawn.attended[..., rows]
        return loss + attention_loss(pattern, shares) / (shares.shape[0] * shares.shape[2])

    @torch.no_grad()
    def right(self, rng: np.random.Generator) -> dict[str, float]:
        """Returns the share of held-out rows with the right value at every position, by variable."""
        drawn = self.draw(rng, TESTED, held_out=True)
        written, _ = self.forward(drawn.parents)
        read = self.probes.read(dict.fromkeys(self.probes.nodes.values(), written))
        shares: dict[str, float] = {}
        for name, logits in read.items():
            wanted = drawn.values[name].numpy()
            there = has_value(wanted)
            if wanted.dtype.kind == "f":
                good = np.abs(logits[0].numpy() - np.nan_to_num(wanted)) <= self.task.tolerance
            else:
                good = logits[:-1].argmax(0).numpy() == wanted
            shares[name] = float((good | ~there).all(0).mean())
        return shares
