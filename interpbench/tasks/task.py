"""A task: everything intrinsic about one high-level model, its inputs and where its variables belong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from interpbench.causal.model import CausalModel, has_value
from interpbench.circuits.components import Node
from interpbench.rasp.placement import place
from interpbench.rasp.program import Program
from interpbench.tasks.domain import Domain, Sampler

Attention = Literal["causal", "bidirectional"]


@dataclass(frozen=True)
class Task:
    """A RASP task.

    Attributes:
        name: the slug by which it is asked for.
        description: one true sentence.
        build: makes the RASP expression of the output.
        vocab: the tokens, in sorted order; a token's code is its place here.
        length: number of tokens, BOS not counted.
        attention: whether the network may look ahead.
        legacy_id: the number in the published benchmark.
        alignment: variable to node (`"a1.h2"`), where it differs from Tracr's placement.
        sampler: draws inputs, where uniform ones would be poor.
        family: the file of `programs/` that declares it.
        duplicate_of: the task with the same program on another vocabulary, if there is one.
        tolerance: the largest error that counts as correct, for numerical outputs.
    """

    name: str
    description: str
    build: Callable[[], Any]
    vocab: tuple[Any, ...]
    length: int
    attention: Attention
    legacy_id: int | None = None
    alignment: Mapping[str, str] = field(default_factory=dict[str, str])
    sampler: Sampler | None = None
    family: str = ""
    duplicate_of: str | None = None
    tolerance: float = 0.05

    @cached_property
    def program(self) -> Program:
        """The RASP program."""
        return Program(self.build(), self.vocab, self.length, self.attention == "causal")

    @property
    def model(self) -> CausalModel:
        """The high-level causal model."""
        return self.program.model

    @cached_property
    def placement(self) -> dict[str, Node]:
        """Where Tracr computes each variable."""
        return place(self.program)

    @cached_property
    def domain(self) -> Domain:
        """Its inputs."""
        return Domain(len(self.vocab), self.length, self.sampler)

    @property
    def bos(self) -> int:
        """The token id of BOS, which starts every sequence; PAD is the next one."""
        return len(self.vocab)

    def token_ids(self, tokens: np.ndarray) -> np.ndarray:
        """Turns inputs `[row, pos]` into what the network reads, `[row, 1 + pos]` with BOS."""
        return np.concatenate([np.full((len(tokens), 1), self.bos), tokens], 1).astype(np.int64)

    def scored(self, outputs: np.ndarray) -> np.ndarray:
        """Returns where an output is trained on and scored: everywhere but at None."""
        return has_value(outputs)
