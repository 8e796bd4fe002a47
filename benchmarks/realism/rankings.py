"""How methods rank on a network by the faithfulness of what they find, which needs no known circuit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.realism.networks import NATURAL, Network
from interpbench.discovery.isolated_run import apply
from interpbench.discovery.method import get_method
from interpbench.scoring.behaviour import Behaviour
from interpbench.scoring.curves import compare
from interpbench.scoring.faithfulness import faithfulness
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.problem import Pairs

METHODS = (
    "acdc",
    "activation_std",
    "atp",
    "eap",
    "eap_ig",
    "exact",
    "gim",
    "hisp",
    "ifr",
    "mask_ig",
    "random",
    "relp",
    "weight_norm",
)
"""The methods, which all take seconds on small networks."""
GIVEN, TESTED = 128, 256
"""The number of pairs of inputs that methods are given, and that circuits are tested on."""


@dataclass(frozen=True)
class Ranked:
    """The numbers of methods on a network, by method.

    Attributes:
        cmd: the area between the faithfulness curve and 1, smaller is better; empty if corrupted
            inputs change no answer.
        cpr: the area under the faithfulness curve.
        auroc: the AUROC against the truth at the level of comparison; empty for a natural network.
    """

    cmd: dict[str, float]
    cpr: dict[str, float]
    auroc: dict[str, float]


def ranked(one: Network) -> Ranked:
    """Runs the methods on a network. All networks of a task are given the same pairs of inputs."""
    pairs = draw_pairs(get_task(one.task), GIVEN + TESTED, 0)
    given = pairs.problem(one.network, GIVEN, 0)
    rest = Pairs(pairs.clean[GIVEN:], pairs.corrupted[GIVEN:], pairs.scored[GIVEN:])
    behaviour = Behaviour(rest.problem(one.network, None, 0))
    cmd: dict[str, float] = {}
    cpr: dict[str, float] = {}
    auroc: dict[str, float] = {}
    for name in METHODS:
        scores = apply(get_method(name), given, name)
        if not behaviour.dead:
            found = faithfulness(behaviour, scores)
            cmd[name], cpr[name] = found.cmd.value, found.cpr.value
        if not one.regime.startswith(NATURAL):
            level = compare(one.truth, scores)[one.truth.headline]
            auroc[name] = level.metrics["auroc"].value
    return Ranked(cmd, cpr, auroc)


def mean_over_seeds(some: Sequence[Mapping[str, float]]) -> np.ndarray:
    """Returns the mean of the numbers of each of `METHODS` over networks that have any; else NaN."""
    known = [one for one in some if one] or [dict.fromkeys(METHODS, np.nan)]
    return np.mean([[one[name] for name in METHODS] for one in known], 0)
