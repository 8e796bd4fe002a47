"""Ranks what entrants hand in: means over programs, with intervals, and paired tests of every two entries."""

from collections.abc import Mapping
from dataclasses import dataclass

from interpbench.circuits.ground_truth import Level, Truth
from interpbench.circuits.scores import Scores
from interpbench.core.estimate import Estimate
from interpbench.scoring.comparison import Comparison, compare_methods, mean_interval
from interpbench.scoring.curves import compare

ENTRY_METRICS = ("auroc", "average_precision")
"""What every entry is scored by; entries are ranked by the first one, and where that is equal by the next."""
AGAINST_COPIES = "against_copies"
"""The AUROC against other copies of the circuit, where networks have some; entries are ranked by it first."""
EntryValues = Mapping[str, Mapping[str, float]]
"""Each of `ENTRY_METRICS` of an entry on each network, by metric and network."""


@dataclass(frozen=True)
class RankedEntries:
    """Entries, the best first.

    Attributes:
        means: the mean over programs of each metric, with the ends of its interval, by entry and metric.
        comparisons: every two entries, by the first metric.
    """

    means: dict[str, dict[str, Estimate]]
    comparisons: list[Comparison]

    def rows(self) -> list[dict[str, object]]:
        """Returns a row of a table for each entry, which says how sure it is better than the next one."""
        names = list(self.means)
        against = {(one.first, one.second): one for one in self.comparisons}
        rows: list[dict[str, object]] = []
        for place, (name, means) in enumerate(self.means.items()):
            found: dict[str, object] = {"rank": place + 1, "entry": name}
            for metric, mean in means.items():
                found[metric] = f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
            if place + 1 < len(names):
                one = against[name, names[place + 1]]
                found["better than the next"] = f"{one.difference.value:+.3f}, p = {one.adjusted:.2g}"
            rows.append(found)
        return rows


def rank_entries(entries: Mapping[str, EntryValues], programs: Mapping[str, str]) -> RankedEntries:
    """Ranks entries.

    Args:
        entries: the numbers of each entry, all on the same networks. They are ranked by the first metric, and
            where that is equal by the next.
        programs: the program of each network.
    """
    metrics = list(next(iter(entries.values())))
    means = {
        name: {
            metric: mean_interval(list(on.values()), [programs[network] for network in on])
            for metric, on in values.items()
        }
        for name, values in entries.items()
    }
    best = sorted(means, key=lambda name: (*(-means[name][metric].value for metric in metrics), name))
    comparisons = compare_methods({name: entries[name][metrics[0]] for name in best}, programs)
    return RankedEntries({name: means[name] for name in best}, comparisons)


def entry_values(truth: Truth, scores: Scores, level: Level) -> dict[str, float]:
    """Returns each of `ENTRY_METRICS` of a ranking of a network's edges; none if no edge is forbidden.

    Args:
        truth: the network's truth.
        scores: the scores of its edges.
        level: the level of detail.
    """
    metrics = compare(truth, scores)[level].metrics
    return {name: metrics[name].value for name in ENTRY_METRICS if name in metrics}
