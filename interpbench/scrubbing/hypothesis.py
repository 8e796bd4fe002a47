"""Hypotheses (Chan et al. 2022, section 2): an interpretation, and which nodes of a network it is about.

The *interpretation* is a graph of claims. Each claim is about one node, its *image*, and says of which value
of an input that node's output is a function; the value itself is never used, only which inputs have the same
one. An edge between claims says that a node reads another. All else is claimed to be unimportant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from interpbench.core.errors import TaskError, did_you_mean
from interpbench.scrubbing.classes import Classes

MOST_PATHS = 20_000
"""The largest number of paths from the output that are run one by one."""


class PathLimitError(TaskError):
    """A hypothesis has more paths than are run one by one."""


@dataclass(frozen=True, eq=False)
class NodeClaim:
    """A claim about a node.

    Attributes:
        image: the name of the node.
        values: the value on each input, `[N]` or `[N, ...]`, of which the node's output is a function; None
            if it may be a function of all of the input: only the same input agrees.
    """

    image: str
    values: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """An interpretation and its images.

    Attributes:
        claims: the claims by name, one of the input and one of the output among them.
        edges: the edges between claims, (parent, child).
        input: the name of the claim about the input.
        output: the name of the claim about the output, whose values are not used.
        copies: whether several claims may be about one node, if different claims read them, as if the node
            had a copy for each (`join` makes such hypotheses); else each node has one claim at most.
    """

    claims: Mapping[str, NodeClaim]
    edges: Sequence[tuple[str, str]]
    input: str = "input"
    output: str = "output"
    copies: bool = False

    @cached_property
    def _parents(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(p for p, child in self.edges if child == name) for name in self.claims}

    def parents(self, claim: str) -> tuple[str, ...]:
        """Returns the parents of a claim, in the order of `edges`."""
        return self._parents[claim]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The claims that the output depends on, each before its parents, the output first.

        Raises:
            TaskError: if claims depend on each other in a circle.
        """
        found: list[str] = []
        above: set[str] = set()

        def visit(claim: str) -> None:
            if claim in above:
                raise TaskError(f"claim {claim!r} depends on itself")
            if claim not in found:
                above.add(claim)
                for parent in self.parents(claim):
                    visit(parent)
                above.remove(claim)
                found.append(claim)

        visit(self.output)
        return tuple(reversed(found))

    @cached_property
    def paths(self) -> dict[str, int]:
        """The number of paths from the output to each claim, counted without following them."""
        counts = dict.fromkeys(self.order, 0) | {self.output: 1}
        for claim in self.order:
            for parent in self.parents(claim):
                counts[parent] += counts[claim]
        return counts

    @property
    def many(self) -> bool:
        """Whether there are too many paths to run them one by one."""
        return sum(self.paths.values()) > MOST_PATHS

    def check_paths(self) -> None:
        """Checks that paths can be run one by one.

        Raises:
            PathLimitError: if there are too many.
        """
        if self.many:
            total = sum(self.paths.values())
            raise PathLimitError(f"the hypothesis has {total:,} paths, and at most {MOST_PATHS:,} are run")

    def classes(self, count: int, lengths: np.ndarray | None = None) -> dict[str, Classes]:
        """Returns the classes of N inputs by claim.

        Args:
            count: the number of inputs N.
            lengths: the length of each input, `[N]`, if they differ.

        Raises:
            TaskError: if a claim's values are not one for each input.
        """
        found: dict[str, Classes] = {}
        for name in self.order:
            try:
                found[name] = Classes.of(self.claims[name].values, count, lengths)
            except TaskError as error:
                raise TaskError(f"claim {name!r}: {error}") from None
        return found

    def check(self, parents: Mapping[str, Sequence[str]], source: str, target: str) -> None:
        """Checks that the hypothesis is one about a network.

        Args:
            parents: what each node of the network reads, by name; nothing for the input.
            source: the node of the input.
            target: the node of the output.

        Raises:
            TaskError: in one line that names the claim, the node or the edge.
        """
        for name in (self.input, self.output, *(each for edge in self.edges for each in edge)):
            if name not in self.claims:
                raise TaskError(f"there is no claim {name!r}{did_you_mean(name, self.claims)}")
        for name, claim in self.claims.items():
            if claim.image not in parents:
                near = did_you_mean(claim.image, parents)
                raise TaskError(f"claim {name!r} is about {claim.image!r}, which is no node{near}")
        self._check_images()
        for name, image in ((self.input, source), (self.output, target)):
            if self.claims[name].image != image:
                raise TaskError(f"claim {name!r} has to be about {image}, not {self.claims[name].image}")
        for parent, child in self.edges:
            pair = self.claims[parent].image, self.claims[child].image
            if pair[0] not in parents[pair[1]]:
                raise TaskError(f"edge {parent!r} to {child!r}: {pair[1]} does not read {pair[0]}")
        if len(set(self.edges)) < len(self.edges):
            twice = next(edge for edge in self.edges if list(self.edges).count(edge) > 1)
            raise TaskError(f"edge {twice[0]!r} to {twice[1]!r} is there twice")
        if lost := [name for name in self.claims if name not in self.order and name != self.input]:
            raise TaskError(
                f"claim {lost[0]!r} does not reach the output: no path of edges leads from it to {target}"
            )

    def _check_images(self) -> None:
        """Checks that no claims, or none that one claim reads, are about the same node."""
        groups = [self.parents(name) for name in self.claims] if self.copies else [tuple(self.claims)]
        for group in groups:
            images: dict[str, str] = {}
            for name in group:
                image = self.claims[name].image
                if image in images:
                    pair = f"{images[image]!r} and {name!r}"
                    raise TaskError(f"claims {pair} are both about {image}; join their values into one claim")
                images[image] = name
