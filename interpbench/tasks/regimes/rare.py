"""The regime `rare`: a copy of a variable that is read only where a token stands that inputs seldom have."""

from dataclasses import dataclass as plain
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from interpbench.causal.model import Intervention, Read, Variable
from interpbench.core import seeds
from interpbench.core.config import STRICT
from interpbench.core.errors import NoPlaceError, TaskError
from interpbench.tasks.domain import Sequences
from interpbench.tasks.regimes.bystanders import Unit
from interpbench.tasks.regimes.parts import FIRST, PAIRS, in_parts, unit_in_parts
from interpbench.tasks.regimes.redundant import copy_name
from interpbench.tasks.regimes.regime import RegimeTask, regime
from interpbench.tasks.stratum import Stratum, made
from interpbench.tasks.task import Task


@regime("rare")
@dataclass(frozen=True, config=STRICT)
class Rare:
    """Readers take the first of two copies of a variable, but where a rare token stands they take the second.

    The token is the last one of the vocabulary with which both copies have an effect.

    Attributes:
        share: the share of drawn inputs in which the token stands somewhere.
        variable: a variable of the node that is copied; `first` for the first one that only MLPs read.
    """

    share: Annotated[float, Field(ge=0.002, lt=1)] = 0.01
    variable: str = FIRST

    def __call__(self, task: Task) -> RegimeTask:
        """Copies the node's variables to a second node, and makes the token rare."""
        if not isinstance(task.domain, Sequences) or len(task.vocab) < 3:
            raise TaskError(f"task {task.name} has no token that can be rare: not all sequences are inputs")
        if isinstance(task.domain, RareToken):
            raise TaskError(f"task {task.name} is rare already")
        unit = unit_in_parts(task, "rare", self.variable)
        for token in reversed(range(len(task.vocab))):
            made = self._with_token(task, unit, token)
            copies = [[copy_name(each.name, number) for each in unit.variables] for number in (1, 2)]
            if all(_acts(made, names) for names in copies):
                return made
        name = unit.variables[0].name
        raise NoPlaceError(
            f"task {task.name}: there is no token with which both copies of {name} have an effect"
        )

    def _with_token(self, task: Task, unit: Unit, token: int) -> RegimeTask:
        """Returns the task in which this token is rare."""
        said = f"two copies; readers take the second where the token is {task.vocab[token]!r}"

        def join(first: np.ndarray, second: np.ndarray, tokens: np.ndarray) -> np.ndarray:
            return np.where(tokens == token, second, first)

        def copies(variable: Variable) -> list[Variable]:
            return [variable, replace(variable, name=copy_name(variable.name, 2))]

        made = in_parts(task, unit, copies, lambda _: join, said, (Read("tokens", "mlp"),))
        domain = task.domain
        assert isinstance(domain, Sequences)
        rare = RareToken(domain.vocab_size, domain.length, domain.sampler, self.share, token)
        return replace(made, domain=rare)


def _acts(task: RegimeTask, names: list[str]) -> bool:
    """Returns whether swapping variables together changes the output of inputs that have the token."""
    rng, model, domain = seeds.generator(0, "rare", task.base.name), task.causal_model, task.domain
    assert isinstance(domain, RareToken)
    base = domain.with_token(rng, domain.draw(rng, PAIRS))
    source, clean = model.run(domain.draw(rng, PAIRS)), model.run(base)
    swaps = {name: Intervention(source[name], np.ones(PAIRS, bool)) for name in names}
    return bool(model.effective(clean, model.run(base, swaps, clean=clean)).any())


@plain(frozen=True)
class RareToken(Sequences):
    """All sequences over a vocabulary, of which few that are drawn have a certain token.

    Attributes:
        share: the share of drawn sequences that have it.
        token: its code.
    """

    share: float = 0.01
    token: int = 0

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws sequences, a share of which has the rare token at some position and the others nowhere."""
        tokens = super().sample(rng, count)
        others = rng.integers(self.vocab_size - 1, size=tokens.shape, dtype=np.int16)
        others += others >= self.token
        tokens = np.where(tokens == self.token, others, tokens)
        return np.where((rng.random(count) < self.share)[:, None], self.with_token(rng, tokens), tokens)

    def eventful(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        """Returns inputs of which every second one has the rare token."""
        odd = np.arange(len(rows)) % 2 == 1
        return np.where(odd[:, None], self.with_token(rng, rows), rows)

    def strata(self) -> list[Stratum]:
        """Returns the strata of sequences, and that of those with the rare token."""

        def draw(rng: np.random.Generator, count: int) -> np.ndarray:
            return self.with_token(rng, super(RareToken, self).sample(rng, count))

        rare = made(self, "the rare token", lambda rows: (rows == self.token).any(1), draw)
        return [*super().strata(), rare]

    def with_token(self, rng: np.random.Generator, tokens: np.ndarray) -> np.ndarray:
        """Returns sequences with one token, or more, replaced by the rare one."""
        one = rng.integers(self.length, size=(len(tokens), 1)) == np.arange(self.length)
        return np.where(one | (rng.random(tokens.shape) < 0.1), self.token, tokens).astype(np.int16)
