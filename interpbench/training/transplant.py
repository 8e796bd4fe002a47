"""Transplants: the nodes of a trained network, copied into a larger one with copies of its circuit.

A network of a task among bystanders (`regime=alive`) has to learn every copy of every variable. The network
of the task alone has learnt one of each already. Here each copy gets the weights of the node that carries its
variables there. What a node writes is kept as far as its readers see it: the principal directions of what it
writes times their matrices, over inputs of the task. These few directions get dimensions of their own in the
larger residual stream, so that a copy reads the copies that it should, and no other node.

Such a network does what it should, but no edge outside the circuit would bring anything. So readers see
nodes that they should not read, in values, hidden units, queries and keys that have no effect. If the task
asks for noise, the logits read them, too, as loud as it says (`training.noise`).

Shapes: D d_model of the larger network, S d_model of the smaller one, F outputs of a reader's matrix, Z kept
directions of a node, M samples (a position of an input each), N inputs, T positions with BOS.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from interpbench.alignment.alignment import Alignment
from interpbench.alignment.structure import structural_edges
from interpbench.circuits.naming import EMBED, SLOTS, Node, Reader
from interpbench.core import seeds
from interpbench.core.errors import ConfigError
from interpbench.tasks.regimes.bystanders import base_name
from interpbench.training.noise import margin
from interpbench.training.reader_inputs import (
    add_noise,
    input_map,
    layer_parts,
    read_without_effect,
    set_input,
)
from interpbench.transformer.config import unlike
from interpbench.transformer.model import Transformer
from interpbench.transformer.recording import record

SMALLEST = 0.005
"""The least singular value of a direction that is kept, as a share of the largest one of its node."""
TINY = 1e-12
"""The least variance of a direction that is kept."""
INPUTS = 512
"""The number of inputs on which the smaller network runs."""


@dataclass(frozen=True)
class Code:
    """The directions of what a node writes that its readers see.

    Attributes:
        encoder: `[S, Z]`; what the node writes, times it, has variance 1 in each direction.
        mean: `[Z]`, the mean of that.
        decoders: `[Z, F]`, by reader: the product with the code is what the reader's matrix sees of the node.
    """

    encoder: Tensor
    mean: Tensor
    decoders: Mapping[Reader, Tensor]


@dataclass(frozen=True)
class Source:
    """A trained network, and what it does on inputs of its task.

    Attributes:
        network: the network.
        alignment: the nodes of its variables.
        written: `[M, S]`, what each node writes.
        seen: `[M, S]`, the residual stream at each reader.
        inputs: the number of inputs N; samples of a position are next to each other.
        margin: the mean lead of the likeliest class over the next one; the tolerance of a number.
    """

    network: Transformer
    alignment: Alignment
    written: Mapping[Node, Tensor]
    seen: Mapping[Reader, Tensor]
    inputs: int
    margin: float

    def code(self, node: Node) -> Code:
        """Returns the directions of what a node writes that its readers in the circuit see."""
        readers = [reader for reader, other in structural_edges(self.alignment) if other == node]
        matrices = [input_map(self.network, reader)[0] for reader in readers]
        joint, mean = torch.cat(matrices, 1), self.written[node].mean(0)
        seen = (self.written[node] - mean) @ joint
        variances, vectors = torch.linalg.eigh(seen.T @ seen / len(seen))
        kept = variances > max(SMALLEST**2 * float(variances.max()), TINY)
        sizes, vectors = variances[kept].sqrt(), vectors[:, kept]
        encoder = joint @ vectors / sizes
        parts = (vectors * sizes).T.split([matrix.shape[1] for matrix in matrices], 1)
        return Code(encoder, mean @ encoder, dict(zip(readers, parts, strict=True)))

    def constants(self, codes: Mapping[Node, Code]) -> tuple[Tensor, dict[Reader, tuple[Tensor, Tensor]]]:
        """Returns what readers see besides the codes of the nodes that they read, at each position.

        A head that counts sees whether a position is BOS, for example, though its value reads no variable.

        Args:
            codes: the codes of nodes.

        Returns:
            Numbers of each position, `[T, K]`, and for each reader of a node of the circuit the matrix
            `[K, F]` and bias `[F]` that turn them into what it sees.
        """
        tables: dict[Reader, Tensor] = {}
        edges = structural_edges(self.alignment)
        for node in (*self.alignment.aligned_nodes, None):
            for reader in _readers_of(self.alignment, node):
                weight, bias = input_map(self.network, reader)
                table = _by_position(self.seen[reader], self.inputs) @ weight + bias
                for parent in (writer for other, writer in edges if other == reader and writer in codes):
                    code = codes[parent]
                    mean = _by_position(self.written[parent], self.inputs) @ code.encoder
                    table = table - mean @ code.decoders[reader]
                tables[reader] = table
        centred = torch.cat([table - table.mean(0) for table in tables.values()], 1)
        left, sizes, right = torch.linalg.svd(centred, full_matrices=False)
        kept = sizes > max(SMALLEST * float(sizes[0]), TINY)
        root = len(left) ** 0.5
        maps = (sizes[:, None] * right / root)[kept].split([table.shape[1] for table in tables.values()], 1)
        biases = [table.mean(0) for table in tables.values()]
        return left[:, kept] * root, dict(zip(tables, zip(maps, biases), strict=True))


class Transplant:
    """The nodes of a trained network, to be copied into one with copies of its circuit.

    Args:
        twin: the trained network.
        trained: the nodes of the circuit in it.
        inner: the nodes of the circuit in the other network.
        crowd: the nodes of all copies there.
    """

    def __init__(self, twin: Transformer, trained: Alignment, inner: Alignment, crowd: Alignment):
        self.twin, self.trained, self.inner, self.crowd = twin, trained, inner, crowd
        source = _source(twin, trained)
        homes = {node: _home(names, trained) for node, names in crowd.aligned_nodes.items()}
        self.copied = {EMBED: EMBED, **{node: home for node, home in homes.items() if home is not None}}
        self.codes = {home: source.code(home) for home in self.copied.values()}
        self.loudness = inner.task.noise * source.margin
        self.positions, self.constants = source.constants(self.codes)
        self.sizes = [len(self.codes[home].mean) for home in self.copied.values()]
        self.sizes.append(self.positions.shape[1])

    @property
    def directions(self) -> int:
        """The number of dimensions that the residual stream has to have."""
        return sum(self.sizes)

    @torch.no_grad()
    def into(self, network: Transformer, seed: int) -> None:
        """Copies the nodes, in place. Nodes of no copy stay random, and write where no copy reads.

        Args:
            network: the network that gets the weights.
            seed: the seed of the dimensions in which nodes write, and of what is read without effect.

        Raises:
            ConfigError: if the networks differ in more than their sizes, have norms, or the residual stream
                has too few dimensions.
        """
        if why := unlike(network.cfg, self.twin.cfg):
            raise ConfigError(f"start: {why}")
        *parts, places = self._places(network.cfg.d_model, seed)
        own = dict(zip(self.copied, parts, strict=True))
        rng = seeds.generator(seed, "transplant: reads without effect")
        _keep_apart(network, torch.cat([*parts, places], 1))
        for node, home in self.copied.items():
            _copy_outputs(network, node, self.twin, home, self.codes[home].encoder @ own[node].T)
        assert network.pos_embed is not None
        network.pos_embed.W_pos.add_(self.positions @ places.T)
        for reader, old in self._readers():
            matrix, bias = self.constants[old]
            parents = self._parents(reader)
            read = places @ matrix
            for parent in parents:
                read += own[parent] @ self.codes[self.copied[parent]].decoders[old]
            set_input(network, reader, read, bias, self.twin.cfg.d_head)
            before = network.cfg.graph.nodes[: network.cfg.graph.writers_before(reader)]
            others = [
                (own[node], self.codes[self.copied[node]].mean)
                for node in before
                if node in self.copied and node not in parents
            ]
            if reader.slot == "logits" and self.loudness:
                add_noise(network, others, self.loudness, rng)
                continue
            sizes = _sizes(self.codes.values(), reader)
            read_without_effect(network, reader, others, sizes, read.shape[1], rng)

    def _places(self, d_model: int, seed: int) -> list[Tensor]:
        """Returns orthonormal dimensions for each copied node and for positions, `[D, Z]` each.

        Raises:
            ConfigError: if there are too few dimensions.
        """
        if self.directions > d_model:
            enough = 1 << (self.directions - 1).bit_length()
            raise ConfigError(
                f"start: the copies write {self.directions} directions, more than model.d_model={d_model}; "
                f"try model.d_model={enough}"
            )
        drawn = seeds.generator(seed, "transplant: places").normal(size=(d_model, d_model))
        basis = torch.linalg.qr(torch.from_numpy(drawn).float())[0]
        return list(basis[:, : self.directions].split(self.sizes, 1))

    def _readers(self) -> list[tuple[Reader, Reader]]:
        """Returns the readers of copied nodes and the logits, each with that of the trained network."""
        found = [(self.crowd.logits, self.trained.logits)]
        for node, home in self.copied.items():
            for reader in _readers_of(self.crowd, node):
                found.append((reader, replace(reader, layer=home.layer, head=home.head)))
        return found

    def _parents(self, reader: Reader) -> list[Node]:
        """Returns the nodes that a reader should read: of the logits, only that of the circuit's output."""
        if reader.slot == "logits":
            return [self.inner.nodes[self.inner.task.causal_model.output]]
        return [node for other, node in structural_edges(self.crowd) if other == reader]


def _source(network: Transformer, alignment: Alignment) -> Source:
    """Runs a trained network on inputs of its task."""
    rng = seeds.generator(0, "transplant")
    tokens = torch.from_numpy(alignment.task.token_ids(alignment.task.domain.draw(rng, INPUTS)))
    with torch.no_grad():
        logits, cache = record(network, tokens)
    written = {node: _samples(each) for node, each in zip(alignment.graph.nodes, cache.stack, strict=True)}
    streams = [_samples(each) for each in cache.residuals]
    middles = [_samples(each) for each in cache.middles]
    readers = alignment.graph.readers
    seen = {reader: (middles if reader.slot == "mlp" else streams)[reader.layer] for reader in readers}
    lead = float(margin(logits, alignment.task.tolerance))
    return Source(network, alignment, written, seen, len(tokens), lead)


def _samples(activations: Tensor) -> Tensor:
    """Returns activations `[S, T, N]` as samples `[M, S]`."""
    return activations.flatten(1).T


def _home(names: Sequence[str], trained: Alignment) -> Node | None:
    """Returns the node that carries variables in the trained network; None if no node does."""
    return next((trained.nodes[base_name(name)] for name in names if base_name(name) in trained.nodes), None)


def _keep_apart(network: Transformer, taken: Tensor) -> None:
    """Takes from what all nodes write the dimensions `[D, *]` that copies write."""
    for layer in range(network.cfg.n_layers):
        attention, mlp = layer_parts(network, layer)
        for written in (attention.W_O, attention.b_O, mlp.W_out, mlp.b_out):
            written.sub_(written @ taken @ taken.T)


def _copy_outputs(network: Transformer, node: Node, twin: Transformer, home: Node, turn: Tensor) -> None:
    """Makes a node write what another one writes, times a matrix `[S, D]`."""
    if node == EMBED:
        assert network.pos_embed is not None and twin.pos_embed is not None
        network.embed.W_E.copy_(twin.embed.W_E @ turn)
        network.pos_embed.W_pos.copy_(twin.pos_embed.W_pos @ turn)
        return
    (attention, mlp), (old_attention, old_mlp) = (
        layer_parts(network, node.layer),
        layer_parts(twin, home.layer),
    )
    if node.head is None or home.head is None:
        _fill(mlp.W_out, old_mlp.W_out @ turn)
        mlp.b_out.copy_(old_mlp.b_out @ turn)
    else:
        _fill(attention.W_O[node.head], old_attention.W_O[home.head] @ turn)


def _readers_of(alignment: Alignment, node: Node | None) -> tuple[Reader, ...]:
    """Returns the readers of a node; of None, that of the logits."""
    if node is None:
        return (alignment.logits,)
    if node == EMBED:
        return ()
    if node.head is None:
        return (Reader(node.layer, "mlp"),)
    return tuple(Reader(node.layer, slot, node.head) for slot in SLOTS)


def _by_position(samples: Tensor, inputs: int) -> Tensor:
    """Returns the means over inputs of samples `[M, S]`, `[T, S]`."""
    return samples.unflatten(0, (-1, inputs)).mean(1)


def _sizes(codes: Iterable[Code], reader: Reader) -> list[float]:
    """Returns the standard deviations of what readers see of each node that they read.

    They are those of readers of the kind of one, if there are any.
    """
    decoders = [each for code in codes for each in code.decoders.items()]
    alike = [decoder for other, decoder in decoders if other.slot == reader.slot]
    return [float(decoder.norm()) for decoder in alike or [decoder for _, decoder in decoders]]


def _fill(written: Tensor, rows: Tensor) -> None:
    """Sets the first rows of a matrix, and the others to 0."""
    written.zero_()
    written[: len(rows)] = rows
