"""A task: everything intrinsic about one high-level model, its inputs and where its variables belong."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from interpbench.causal.model import CausalModel, has_value
from interpbench.circuits.naming import EMBED, Node, parse_node
from interpbench.core.errors import TaskError
from interpbench.tasks.domain import Domain, InputSampler, Sequences
from interpbench.tasks.model_settings import ModelSettings
from interpbench.tasks.strata import Strata

if TYPE_CHECKING:  # a hand-written task needs no Tracr
    from interpbench.rasp.program import Program

AttentionKind = Literal["causal", "bidirectional"]


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """What all tasks have in common.

    Attributes:
        name: the slug by which it is asked for; the catalogue gives it.
        description: one true sentence.
        build: makes the program.
        vocab: the tokens; a token's code is its place here.
        length: the largest number of tokens, BOS not counted.
        attention: whether the network may look ahead.
        legacy_id: the number in the published benchmark.
        alignment: variable to node (`"a1.h2"`), where a RASP program's differs from Tracr's.
        group: the file that declares it.
        duplicate_of: the task with the same program on another vocabulary, if there is one.
        variant_of: the task whose program this is on other inputs, or answered at other positions.
        tolerance: the largest error that counts as correct, for numerical outputs.
        sampler: draws sequences, where uniform ones would be poor.
    """

    name: str = ""
    description: str = ""
    build: Callable[[], Any]
    vocab: tuple[Any, ...]
    length: int
    attention: AttentionKind
    legacy_id: int | None = None
    alignment: Mapping[str, str] = field(default_factory=dict[str, str])
    group: str = ""
    duplicate_of: str | None = None
    variant_of: str | None = None
    tolerance: float = 0.05
    sampler: InputSampler | None = None

    @cached_property
    @abstractmethod
    def causal_model(self) -> CausalModel:
        """The high-level causal model."""

    @cached_property
    @abstractmethod
    def default_alignment(self) -> dict[str, Node]:
        """The node of each variable, unless a RASP task's `alignment` or a run's says otherwise."""

    @cached_property
    @abstractmethod
    def domain(self) -> Domain:
        """Its inputs."""

    @abstractmethod
    def listing(self) -> list[str]:
        """Returns the program as readable lines, one per variable."""

    @cached_property
    def strata(self) -> Strata:
        """The kinds of its inputs, drawn equally often where rare ones must not be missed."""
        return Strata(self.domain, self.causal_model, self.scored, self.name)

    @property
    def program_name(self) -> str:
        """The task whose program this is: models of one program are not independent."""
        return self.duplicate_of or self.variant_of or self.name

    @property
    def bos(self) -> int:
        """The token id of BOS, which starts every sequence; PAD is the next one."""
        return len(self.vocab)

    def token_ids(self, tokens: np.ndarray) -> np.ndarray:
        """Turns inputs `[row, pos]` into what the network reads, `[row, 1 + pos]` with BOS; None is PAD."""
        ids = np.where(tokens < 0, self.bos + 1, tokens)
        return np.concatenate([np.full((len(ids), 1), self.bos), ids], 1).astype(np.int64)

    def scored(self, outputs: np.ndarray) -> np.ndarray:
        """Returns where an output is trained on and scored: everywhere but at None."""
        return has_value(outputs)


@dataclass(frozen=True, kw_only=True)
class RaspTask(Task):
    """A RASP program on all sequences over its vocabulary, which is sorted."""

    @cached_property
    def program(self) -> "Program":
        """The RASP program."""
        from interpbench.rasp.program import Program

        expression = self.build()
        if not hasattr(expression, "children"):
            said = f"returns {type(expression).__name__}, not a RASP expression"
            raise TaskError(f"task {self.name}: {self.build.__name__}() {said}")
        return Program(expression, self.vocab, self.length, self.attention == "causal")

    @cached_property
    def causal_model(self) -> CausalModel:
        """The program as a causal model."""
        return self.program.causal_model

    @cached_property
    def default_alignment(self) -> dict[str, Node]:
        """Where Tracr computes each variable."""
        from interpbench.rasp.compiled_alignment import compiled_alignment

        return compiled_alignment(self.program)

    @cached_property
    def domain(self) -> Domain:
        """All sequences."""
        return Sequences(len(self.vocab), self.length, self.sampler)

    def listing(self) -> list[str]:
        """Returns the RASP program as readable lines."""
        return self.program.listing()


@dataclass(frozen=True, kw_only=True)
class CausalTask(Task):
    """A hand-written causal model.

    Attributes:
        domain: its inputs.
        alignment: variable to node (`"a1.h1"`), but for those without parents, which are at the embedding.
        network: what its network has instead of what the default rule gives.
        published: what the published network has instead of that.
    """

    domain: Domain = field()  # pyright: ignore[reportIncompatibleVariableOverride]  what it is made of
    network: ModelSettings = field(default_factory=ModelSettings)
    published: ModelSettings = field(default_factory=ModelSettings)

    @cached_property
    def causal_model(self) -> CausalModel:
        """The causal model."""
        return self.build()

    @cached_property
    def default_alignment(self) -> dict[str, Node]:
        """The node of each variable."""
        reading = [name for name, variable in self.causal_model.variables.items() if variable.reads]
        if missing := [name for name in reading if name not in self.alignment]:
            raise TaskError(f"task {self.name}: alignment says no node for {', '.join(missing)}")
        return {
            name: parse_node(self.alignment[name]) if name in reading else EMBED
            for name in self.causal_model.variables
        }

    def listing(self) -> list[str]:
        """Returns what each variable is, as its formula says."""
        return [f"{v.name} = {v.formula}" for v in self.causal_model.variables.values() if v.reads]
