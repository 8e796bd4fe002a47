"""A task: a high-level causal model, its inputs, and the nodes at which its variables belong."""

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
    """The base class of tasks.

    Attributes:
        name: the task's name in the catalogue, which sets it.
        description: a sentence that says what the output is.
        build: the function that returns the program (RASP) or the causal model.
        vocab: the tokens; a token's code is its index here.
        length: the largest number of tokens, BOS not counted.
        attention: whether the network's attention is causal or bidirectional.
        legacy_id: the task's number in the published InterpBench; None if it is not part of it.
        alignment: the nodes of variables, by name (`"a1.h2"`), where a RASP program's differ from Tracr's.
        group: the name of the file that declares the task.
        duplicate_of: the name of the task with the same program up to the names of tokens and values, if
            there is one: `double` is `identity`, whose ten classes have other names.
        variant_of: the name of the task with the same program on other inputs or with outputs at other
            positions, if there is one.
        tolerance: the largest error of a numerical output that counts as correct.
        sampler: draws sequences `[row, pos]`; None to draw them uniformly.
        network: settings of its network that differ from the default rule (`tasks.shapes`).
        crowd: the task of all variables that training draws and asks for, those of bystanders among them
            (`regimes.bystanders`); None if these are the task's own.
        noise: how far edges outside the circuit move the logits, as a share of the margin; 0 if they are
            trained for nothing of the sort (`regimes.noisy`).
        flat: up to which share of the way patches of required edges move nothing; 0 if it is not trained for
            (`regimes.saturated`).
        secrets: the variables whose nodes are trained to write nothing else (`regimes.shares`).
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
    network: ModelSettings = field(default_factory=ModelSettings)
    crowd: "Task | None" = None
    noise: float = 0.0
    flat: float = 0.0
    secrets: tuple[str, ...] = ()

    @cached_property
    @abstractmethod
    def causal_model(self) -> CausalModel:
        """The high-level causal model."""

    @cached_property
    @abstractmethod
    def default_alignment(self) -> dict[str, Node]:
        """The node of each variable, unless a RASP task's `alignment` or a run's says otherwise."""

    @cached_property
    def homes(self) -> dict[str, Node]:
        """The node of each variable, as `alignment` says where it does."""
        return {**self.default_alignment, **{name: parse_node(node) for name, node in self.alignment.items()}}

    @cached_property
    @abstractmethod
    def domain(self) -> Domain:
        """The inputs of the task."""

    @abstractmethod
    def listing(self) -> list[str]:
        """Returns the program as readable lines, one per variable."""

    @cached_property
    def strata(self) -> Strata:
        """The strata (kinds) of inputs, from which draws are made equally often so that none is missed."""
        return Strata(self.domain, self.causal_model, self.scored, self.name)

    @property
    def program_name(self) -> str:
        """The name of the task whose program this is; networks of one program are not independent."""
        return self.duplicate_of or self.variant_of or self.name

    @property
    def bos(self) -> int:
        """The token id of BOS, which starts every sequence; PAD is the next one."""
        return len(self.vocab)

    def token_ids(self, tokens: np.ndarray) -> np.ndarray:
        """Returns the token ids `[row, 1 + pos]` of inputs `[row, pos]`: BOS first, and PAD for None."""
        ids = np.where(tokens < 0, self.bos + 1, tokens)
        return np.concatenate([np.full((len(ids), 1), self.bos), ids], 1).astype(np.int64)

    def scored(self, outputs: np.ndarray) -> np.ndarray:
        """Returns bool `[row, pos]`, which outputs are trained on and scored: all that are not None."""
        return has_value(outputs)


@dataclass(frozen=True, kw_only=True)
class RaspTask(Task):
    """A task whose program is written in RASP, on all sequences over its vocabulary, which is sorted."""

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
        """The node at which Tracr computes each variable."""
        from interpbench.rasp.compiled_alignment import compiled_alignment

        return compiled_alignment(self.program)

    @cached_property
    def domain(self) -> Domain:
        """All sequences of the task's length over its vocabulary."""
        return Sequences(len(self.vocab), self.length, self.sampler)

    def listing(self) -> list[str]:
        """Returns the RASP program as readable lines."""
        return self.program.listing()


@dataclass(frozen=True, kw_only=True)
class CausalTask(Task):
    """A task whose causal model is written by hand.

    Attributes:
        domain: the inputs of the task.
        alignment: the nodes of variables, by name (`"a1.h1"`); those without parents are at the embedding.
        published: settings of the published network that differ from `network`.
    """

    domain: Domain = field()  # pyright: ignore[reportIncompatibleVariableOverride]  what it is made of
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
            raise TaskError(
                f"task {self.name}: alignment has no node for {', '.join(missing)}; add one, such as "
                f"alignment={{{missing[0]!r}: 'a0.h0'}}"
            )
        return {
            name: parse_node(self.alignment[name]) if name in reading else EMBED
            for name in self.causal_model.variables
        }

    def listing(self) -> list[str]:
        """Returns a line for each variable that is computed: its name and its formula in words."""
        return [f"{v.name} = {v.formula}" for v in self.causal_model.variables.values() if v.reads]
