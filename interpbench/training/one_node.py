"""The output of a single node with one of the edges into it patched, for many edges at once.

Nothing before or after the node is computed.

Shapes: D d_model, E d_head, M d_mlp, T positions, Q positions of queries, N rows, K edges into the node; in
patterns, K are positions of keys.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from interpbench.circuits.naming import SLOTS, Node, Slot
from interpbench.training.interventional_accuracy import Activations
from interpbench.transformer.layers import Block, Mlp
from interpbench.transformer.model import Transformer
from interpbench.transformer.row_products import mix, scores


class NodeOnCleanRun(ABC):
    """A node and its activations on a clean run: the base class of heads and MLPs.

    Args:
        network: the network.
        node: the node.
    """

    def __init__(self, network: Transformer, node: Node):
        block: Block = network.blocks[node.layer]  # type: ignore[assignment]
        self.block, self.node = block, node

    @abstractmethod
    def numbers(self, length: int) -> int:
        """Returns the number of activations that an edge needs for each row of `length` positions."""

    @abstractmethod
    def effects(self, slot: Slot, deltas: Tensor, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Returns the change of linear functions of the node's output with each edge patched alone.

        Args:
            slot: the input of the node that the edges go to.
            deltas: patched minus clean activations along each edge, `[K, D, T, N]`.
            gradients: the coefficients of the functions, `[D, T, N]` each.

        Returns:
            The change of each function, `[K, N]` each.
        """

    @abstractmethod
    def written(self, slot: Slot, delta: Tensor, rows: Tensor) -> Tensor:
        """Returns the node's output `[D, T, M]` in M rows with an edge patched.

        Args:
            slot: the input of the node that the edge goes to.
            delta: patched minus clean activations along the edge of each row, `[D, T, M]`.
            rows: the indices of the rows.
        """


class Head(NodeOnCleanRun):
    """An attention head on a clean run.

    Args:
        network: the network.
        node: the head.
        run: the activations of the clean run.
    """

    def __init__(self, network: Transformer, node: Node, run: Activations):
        super().__init__(network, node)
        assert node.head is not None
        attn, head = self.block.attn, node.head
        self.x = run.residuals[node.layer]
        weights, biases = (each[:, 0] for each in attn.maps(heads=[head]))
        self.weights: dict[Slot, Tensor] = dict(zip(SLOTS, weights))
        self.biases: dict[Slot, Tensor] = dict(zip(SLOTS, biases[..., None, None]))
        self.output = attn.outputs([head])[0]
        seen = self.block.ln1(self.x)
        self.clean = {slot: self._projected(slot, seen) + self.biases[slot] for slot in SLOTS}
        self.pattern = attn.pattern(self.clean["q"][None], self.clean["k"][None])[0]

    def numbers(self, length: int) -> int:
        """Returns the number of projections and patterns, and with a norm of inputs, for each row."""
        width, features = self.weights["q"].shape
        return length * (
            2 * width + 3 * length + (0 if isinstance(self.block.ln1, torch.nn.Identity) else 2 * features)
        )

    def _projected(self, slot: Slot, x: Tensor) -> Tensor:
        """Returns the projections `[..., E, T, N]` of inputs `[..., D, T, N]`, without the bias."""
        weight = self.weights[slot]
        if x.ndim == 3:
            return (weight @ x.flatten(1)).view(len(weight), *x.shape[1:])
        return torch.matmul(weight, x.flatten(2)).view(len(x), len(weight), *x.shape[2:])

    def _moved(self, slot: Slot, deltas: Tensor) -> Tensor:
        """Returns the projections `[K, E, T, N]` of the input with deltas `[K, D, T, N]` added."""
        if isinstance(self.block.ln1, torch.nn.Identity):
            return self.clean[slot] + self._projected(slot, deltas)
        return self._projected(slot, self.block.ln1(self.x + deltas)) + self.biases[slot]

    def effects(self, slot: Slot, deltas: Tensor, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Returns the change of each function; see the base class.

        An edge into queries or keys changes the attention pattern, and the clean values are mixed by the new
        pattern. An edge into values changes the values, and the clean pattern mixes them.
        """
        moved = self._moved(slot, deltas)
        results: list[Tensor] = []
        pattern = None if slot == "v" else self._turned(slot, moved)
        for gradient in gradients:
            pulled = (self.output.T @ gradient.flatten(1)).view(-1, *gradient.shape[1:])  # [E, Q, N]
            if pattern is not None:
                worth = scores(pulled[None], self.clean["v"][None])[0]  # [Q, K, N]
                results.append((pattern * worth).sum((1, 2)))
            else:
                worth = mix(self.pattern.transpose(0, 1)[None], pulled[None])[0]  # [E, K, N]
                results.append(((moved - self.clean["v"]) * worth).sum((1, 2)))
        return results

    def _turned(self, slot: Slot, moved: Tensor) -> Tensor:
        """Returns how much the attention pattern changes, `[K, Q, K, N]`: patched minus clean.

        Args:
            slot: `q` or `k`; whether the edges go to the queries or to the keys.
            moved: the queries or keys with each edge patched alone, `[K, E, T, N]`.
        """
        fixed = self.clean["k" if slot == "q" else "q"].expand_as(moved)
        pair = (moved, fixed) if slot == "q" else (fixed, moved)
        return self.block.attn.pattern(*pair).sub_(self.pattern)

    def changes(self, slot: Slot, deltas: Tensor) -> Tensor:
        """Returns the change of the head's mixed values with each edge patched alone, `[K, E, T, N]`."""
        moved = self._moved(slot, deltas)
        if slot == "v":
            pattern = self.pattern.expand(len(moved), *self.pattern.shape)
            return mix(pattern, moved.sub_(self.clean["v"]))
        return mix(self._turned(slot, moved), self.clean["v"].expand(len(moved), *self.clean["v"].shape))

    def written(self, slot: Slot, delta: Tensor, rows: Tensor) -> Tensor:
        """Returns the head's output with its queries, keys or values changed."""
        parts = {name: values[..., rows] for name, values in self.clean.items()}
        if isinstance(self.block.ln1, torch.nn.Identity):
            parts[slot] = parts[slot] + self._projected(slot, delta)
        else:
            parts[slot] = self._projected(slot, self.block.ln1(self.x[..., rows] + delta)) + self.biases[slot]
        q, k, v = (parts[name][None] for name in SLOTS)
        attn = self.block.attn
        mixed = attn.mix(attn.pattern(q, k), v)
        return (self.output @ mixed[0].flatten(1)).view(-1, *mixed.shape[2:])


class MlpReader(NodeOnCleanRun):
    """An MLP on a clean run.

    Args:
        network: the network.
        node: the MLP.
        run: the activations of the clean run.
    """

    def __init__(self, network: Transformer, node: Node, run: Activations):
        super().__init__(network, node)
        heads = [place for place, other in enumerate(network.cfg.graph.nodes) if other.layer == node.layer][
            :-1
        ]
        total = run.stack[heads[0] : heads[-1] + 1].sum(0)
        self.x = run.residuals[node.layer] + total + self.block.attn.b_O[:, None, None]
        mlp, self.linear = self.block.mlp, None
        if isinstance(mlp, Mlp) and isinstance(self.block.ln2, torch.nn.Identity):
            self.linear = mlp.linear(self.x)
            self.active = mlp.activate(self.linear)
        else:
            self.active = mlp.hidden(self.block.ln2(self.x))

    def numbers(self, length: int) -> int:
        """Returns the number of activations that an edge needs for each row of `length` positions.

        It is three for each hidden unit and position: the values before and after the activation function,
        and an intermediate result.
        """
        return 3 * length * self.block.mlp.W_in.shape[1]

    def _hidden(self, deltas: Tensor) -> Tensor:
        """Returns the hidden units `[K, M, T, N]` of the input with deltas `[K, D, T, N]` added."""
        mlp = self.block.mlp
        if self.linear is None or not isinstance(mlp, Mlp):
            return mlp.hidden(self.block.ln2(self.x + deltas))
        moved = torch.matmul(mlp.W_in.T, deltas.flatten(2)).view(len(deltas), *self.linear.shape)
        return mlp.activate(moved.add_(self.linear))

    def effects(self, slot: Slot, deltas: Tensor, gradients: Sequence[Tensor]) -> list[Tensor]:
        """Returns the change of each function; see the base class.

        It is the change of the hidden units, multiplied by the output weights and by the function's
        coefficients.
        """
        change = self._hidden(deltas).sub_(self.active).flatten(1, 2)  # [K, M × T, N]
        results: list[Tensor] = []
        for gradient in gradients:
            worth = (self.block.mlp.W_out @ gradient.flatten(1)).view(-1, gradient.shape[2])  # [M × T, N]
            results.append((change * worth).sum(1))
        return results

    def written(self, slot: Slot, delta: Tensor, rows: Tensor) -> Tensor:
        """Returns the MLP's output with its input changed."""
        return self.block.mlp(self.block.ln2(self.x[..., rows] + delta))


def reader(network: Transformer, node: Node, run: Activations) -> NodeOnCleanRun:
    """Returns a head or an MLP on a clean run.

    Args:
        network: the network.
        node: the node.
        run: the activations of the clean run.
    """
    return MlpReader(network, node, run) if node.head is None else Head(network, node, run)
