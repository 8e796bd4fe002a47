"""The page and the figures of the study, made of its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.realism.comparison import LEAST_P, Agreement, Apart, Row
from benchmarks.realism.measurements import Measured
from benchmarks.realism.networks import AGAIN, EVERY, GUIDED, NATURAL, REGIMES
from interpbench.core.estimate import Estimate
from interpbench.reports.palette import COLOURS, Picture, save

DOCS = Path("docs")
TEMPLATE = Path(__file__).with_suffix(".md")
"""The page, with names of what is put in."""
COLOUR = dict(zip(EVERY, COLOURS))
RIGHT = 0.99
"""The accuracy below which a network has not learned its task."""
KINDS = ((True, "heads"), (False, "MLPs"))
"""Whether nodes are heads, and what they are called."""
OTHERS = tuple(regime for regime in EVERY if regime != NATURAL)


@dataclass(frozen=True)
class Study:
    """All numbers of the study.

    Attributes:
        rows: the measurements of each network.
        measured: the same networks' numbers of nodes, in the same order.
        validations: the rates of the same networks' validations: accuracy, IIA, SIIA and edges.
        apart: how well each regime can be told from natural networks.
        strong: the AUROC of that classifier without the tasks of which a natural network is not `RIGHT`.
        agreement: how methods' rankings on each regime agree with those on natural networks.
        lost: by how much that agreement is less than the control's, within tasks.
        truth: how rankings by faithfulness agree with those by the truth, on each other regime.
    """

    rows: Sequence[Row]
    measured: Sequence[Measured]
    validations: Sequence[Mapping[str, float]]
    apart: Mapping[str, Apart]
    strong: Mapping[str, Estimate]
    agreement: Mapping[str, Agreement]
    lost: Mapping[str, Agreement]
    truth: Mapping[str, Agreement]


def write(study: Study) -> None:
    """Writes `docs/realism.md` and its figures."""
    save(_nodes(study), DOCS / "realism-nodes.png")
    save(_features(study), DOCS / "realism-features.png")
    save(_agreement(study), DOCS / "realism-rankings.png")
    (DOCS / "realism.md").write_text(_page(study))


def _page(study: Study) -> str:
    tasks = sorted({row.task for row in study.rows})
    return TEMPLATE.read_text().format(
        tasks=len(tasks),
        names=", ".join(f"`{task}`" for task in tasks),
        networks=len(study.rows),
        seeds=len(study.rows) // (len(EVERY) * len(tasks)),
        kinds=len(EVERY),
        table=_kinds(study),
        weak=_weak_text(study),
        apart=_apart_text(study),
        apart_table=_apart_rows(study),
        features=_feature_text(study),
        nodes=_node_text(study),
        rankings=_ranking_text(study),
        agreement_table=_agreement_rows(study.agreement),
        truth_table=_agreement_rows(study.truth),
    )


def _kinds(study: Study) -> str:
    lines: list[str] = []
    for regime in EVERY:
        here = [rates for row, rates in zip(study.rows, study.validations) if row.regime == regime]
        means = [np.mean([rates[kind] for rates in here]) for kind in ("accuracy", "iia", "siia", "edges")]
        lines.append(f"| {regime} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |")
    return "\n".join(lines)


def _weak_text(study: Study) -> str:
    found = [
        (row.task, rates["accuracy"])
        for row, rates in zip(study.rows, study.validations)
        if row.regime == NATURAL and rates["accuracy"] < RIGHT
    ]
    if not found:
        return f"Every natural network is right on at least {RIGHT:.0%} of its last validation."
    natural = sum(row.regime == NATURAL for row in study.rows)
    worst = {task: min(rate for other, rate in found if other == task) for task, _ in sorted(found)}
    tasks = _listed([f"`{task}` ({rate:.3f} at the worst)" for task, rate in worst.items()])
    values = _listed([f"{regime} {_shown(value)}" for regime, value in study.strong.items()])
    control = study.strong[AGAIN]
    said = (
        (
            " So on these tasks the control does not come out at 0.5: natural networks of two sets of seeds "
            "are told apart more than they should be, and of the other AUROCs only what exceeds that counts."
        )
        if _off(control)
        else ""
    )
    return (
        f"{len(found)} of {natural} natural networks are right on less than {RIGHT:.0%} of their last "
        f"validation, having had no more steps than the guided ones: those of {tasks}. Without these tasks "
        f"the AUROC of the classifier below is: {values}.{said}"
    )


def _off(control: Estimate) -> bool:
    """Whether natural networks of two sets of seeds are told apart though only chance sets them apart."""
    return control.ends[0] > 0.5


def _p(one: Apart) -> str:
    return f"{'at most ' if one.p <= LEAST_P * 1.001 else ''}{one.p:.3f}"


def _shown(number: Estimate) -> str:
    low, high = number.ends
    return f"{number.value:.2f} ({low:.2f} to {high:.2f})"


def _apart_rows(study: Study) -> str:
    return "\n".join(
        f"| {regime} | {_shown(one.auroc)} | {_p(one)} | {_shown(one.blind)} |"
        for regime, one in study.apart.items()
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _apart_text(study: Study) -> str:
    told = [regime for regime in REGIMES if study.apart[regime].p <= 0.05]
    alike = [regime for regime in REGIMES if regime not in told]
    control, fewer = study.apart[AGAIN], study.strong[AGAIN]
    said = (
        "which it should not be: take the rest with care."
        if control.p <= 0.05
        else f"as it should be; but without the tasks above it is {_shown(fewer)}, which it should not be."
        if _off(fewer)
        else "as it should be."
    )
    value = f"{control.auroc.value:.2f} (p = {control.p:.2f})"
    parts = [f"On the control the classifier's AUROC is {value}, {said}"]
    if told:
        values = _listed([f"{regime} ({study.apart[regime].auroc.value:.2f})" for regime in told])
        parts.append(f"**Networks of these kinds can be told from natural ones**: {values}.")
    if alike:
        parts.append(f"Networks of these kinds could not be told from natural ones: {_listed(alike)}.")
    return " ".join(parts)


def _telling(study: Study, regime: str) -> list[tuple[str, Estimate]]:
    """Returns the features that differ from natural networks, those that differ most first."""
    found = [
        (name, one)
        for name, one in study.apart[regime].features.items()
        if one.ends[0] > 0.5 or one.ends[1] < 0.5
    ]
    return sorted(found, key=lambda pair: -abs(pair[1].value - 0.5))


def _feature_text(study: Study) -> str:
    lines: list[str] = []
    for regime in OTHERS:
        telling = _telling(study, regime)
        total = len(study.apart[regime].features)
        most = "; ".join(
            f"{name.replace(': ', ', ')} {'larger' if one.value > 0.5 else 'smaller'} ({one.value:.2f})"
            for name, one in telling[:5]
        )
        lines.append(
            f"* *{regime}*: {len(telling)} of {total} features differ (intervals without 0.5)"
            + (f"; most of all {most}." if most else ".")
        )
    return "\n".join(lines)


def split(study: Study, regime: str, name: str, heads: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns a number of all required heads, or MLPs, and of all others, over the networks of a regime."""
    here = [m for row, m in zip(study.rows, study.measured) if row.regime == regime]
    numbers = np.concatenate([np.array(m.nodes[name]) for m in here])
    required, kind = (
        np.concatenate([np.array(flags) for flags in lists])
        for lists in ([m.required for m in here], [m.heads for m in here])
    )
    kind = kind == heads
    return numbers[required & kind], numbers[~required & kind]


def _node_text(study: Study) -> str:
    lines: list[str] = []
    for heads, kind in KINDS:
        counts = [len(values) for values in split(study, GUIDED, next(iter(study.measured[0].nodes)), heads)]
        lines.append(f"* **{kind}**: {counts[0]} required and {counts[1]} others, in networks of each kind.")
        for name in study.measured[0].nodes:
            parts = [
                f"{regime} {np.median(inside):.2g} and {np.median(outside):.2g}"
                for regime in (NATURAL, AGAIN, "IIT", GUIDED)
                for inside, outside in [split(study, regime, name, heads)]
            ]
            lines.append(f"    * {name}: {'; '.join(parts)}.")
    return "\n".join(lines)


def _ranking_text(study: Study) -> str:
    ceiling = study.agreement[AGAIN]
    parts = [
        "Rankings of the same methods on natural networks with other seeds agree with "
        f"τ = {ceiling.cmd.value:.2f} by CMD and {ceiling.cpr.value:.2f} by CPR, from as many networks as "
        "below: chance among them lowers both alike. What other kinds lose against that is the mean "
        "difference within tasks, with the interval of a bootstrap of tasks."
    ]
    for regime in REGIMES:
        lost = study.lost[regime]
        clear = [name for name, one in (("CMD", lost.cmd), ("CPR", lost.cpr)) if one.ends[0] > 0]
        said = f"clearly less by {' and by '.join(clear)}" if clear else "not clearly less by either"
        parts.append(
            f"On {regime} networks τ is lower by {_shown(lost.cmd)} by CMD and {_shown(lost.cpr)} by CPR: "
            f"{said}."
        )
    return " ".join(parts)


def _agreement_rows(found: Mapping[str, Agreement]) -> str:
    return "\n".join(f"| {regime} | {_shown(one.cmd)} | {_shown(one.cpr)} |" for regime, one in found.items())


def _features(study: Study) -> Picture:
    """Draws the AUROC of each feature alone, a colour for each regime."""
    names = sorted(study.apart[GUIDED].features, reverse=True)
    figure = Picture(figsize=(9, 0.26 * len(names) + 1))
    axes = figure.add_axes((0.42, 0.07, 0.38, 0.9))
    for shift, regime in enumerate(OTHERS):
        values = [study.apart[regime].features[name] for name in names]
        places = np.arange(len(names)) + (shift - 2) * 0.15
        x = np.array([one.value for one in values])
        ends = np.abs(np.array([one.ends for one in values]).T - x)
        axes.errorbar(
            x, places, xerr=ends, fmt="o", ms=3, lw=0.8, color=COLOUR[regime], label=regime, zorder=3
        )
    axes.axvline(0.5, color="#999999", lw=0.8)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.6, len(names) - 0.4), xlabel="AUROC against natural networks")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8)
    return figure


def _nodes(study: Study) -> Picture:
    """Draws the cumulative shares of nodes by their numbers: required nodes solid, others dashed."""
    names = list(study.measured[0].nodes)
    figure = Picture(figsize=(12, 5), layout="constrained")
    grid = figure.subplots(len(KINDS), len(names), squeeze=False, sharey=True, sharex="col")
    for row, (heads, kind) in enumerate(KINDS):
        for column, name in enumerate(names):
            axes, largest = grid[row, column], 0.0
            for regime in (NATURAL, AGAIN, "IIT", GUIDED):
                for values, line in zip(split(study, regime, name, heads), ("-", "--")):
                    x = np.sort(values)
                    label = regime if line == "-" else None
                    shares = np.arange(1, len(x) + 1) / len(x)
                    axes.plot(x, shares, line, color=COLOUR[regime], lw=1.2, label=label)
                    largest = max(largest, float(np.quantile(x, 0.98)))
            if name == "norm":
                axes.set(xscale="log", xlim=(0.1, 1.2 * largest))
            else:
                axes.set_xlim(-0.03 * largest, 1.05 * largest)
            if row == 0:
                axes.set_title(name, fontsize=8)
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
        grid[row, 0].set_ylabel(f"share of {kind}", fontsize=8)
    lines = grid[0, 0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside right upper", frameon=False, fontsize=8)
    figure.supxlabel("solid: required nodes, or their places; dashed: others; axes end at 98 %", fontsize=8)
    return figure


def _agreement(study: Study) -> Picture:
    """Draws the agreement of rankings with those on natural networks."""
    figure = Picture(figsize=(6, 2.6))
    axes = figure.add_axes((0.2, 0.2, 0.55, 0.75))
    names = list(study.agreement)[::-1]
    for shift, (label, colour) in enumerate((("by CMD", COLOURS[0]), ("by CPR", COLOURS[1]))):
        values = [getattr(study.agreement[name], label[-3:].lower()) for name in names]
        x = np.array([one.value for one in values])
        ends = np.abs(np.array([one.ends for one in values]).T - x)
        axes.errorbar(
            x, np.arange(len(names)) - shift * 0.2, xerr=ends, fmt="o", ms=4, color=colour, label=label
        )
    axes.axvline(0, color="#999999", lw=0.8)
    axes.set(xlim=(-0.05, 1.02), xlabel="Kendall's τ with natural networks")
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False, fontsize=8)
    return figure
