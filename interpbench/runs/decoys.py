"""Decoys in the terminal: a method on a circuit, all methods on it, the circuits, and the gate."""

from collections.abc import Sequence

from rich.console import Console

from interpbench.decoys.decoy_circuits import ORDER, decoy_circuit, summary
from interpbench.decoys.decoy_scores import Labels, attribute, measure_cells
from interpbench.decoys.dissociation import missed_cells
from interpbench.decoys.feature_methods import ATTRIBUTIONS, METHODS
from interpbench.reports.tables import rows_table


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_attribution(
    console: Console, method: str, circuit: str, labels: Labels, samples: int, seed: int
) -> None:
    """Prints what a method says of a circuit: AUROC, and the features from the highest score, * if causal.

    Args:
        console: where to print.
        method: the name of the method.
        circuit: the name of the circuit.
        labels: which features count as causal.
        samples: the number of inputs.
        seed: the seed.
    """
    found = attribute(method, decoy_circuit(circuit), labels, samples, seed)
    _say(console, f"method : {method} ({ATTRIBUTIONS[method].family})")
    for name, value in (("circuit", circuit), ("labels", labels), ("samples", samples), ("seed", seed)):
        _say(console, f"{name} : {value}")
    _say(console, f"auroc : {found.auroc:.4f}")
    ranked = sorted(range(len(found.scores)), key=lambda feature: (-found.scores[feature], feature))
    for feature in ranked:
        star = "*" if found.labels[feature] else " "
        _say(console, f"  {star} {f'f{feature}':<3} {found.scores[feature]:.4f}")


def show_comparison(
    console: Console, methods: Sequence[str], circuit: str, labels: Labels, samples: int, seed: int
) -> None:
    """Prints the AUROC of methods on a circuit, and its features from the highest score, * if causal.

    Args:
        console: where to print.
        methods: the names of the methods.
        circuit: the name of the circuit.
        labels: which features count as causal.
        samples: the number of inputs.
        seed: the seed.
    """
    rows: list[dict[str, object]] = []
    for method in methods:
        found = attribute(method, decoy_circuit(circuit), labels, samples, seed)
        best = sorted(range(len(found.scores)), key=lambda feature: (-found.scores[feature], feature))
        shown = " ".join(f"f{feature}{'*' * bool(found.labels[feature])}" for feature in best[:8])
        auroc = f"{found.auroc:.4f}"
        rows.append(
            {"method": method, "family": ATTRIBUTIONS[method].family, "auroc": auroc, "ranking": f"{shown} …"}
        )
    _say(console, f"{circuit}: {summary(circuit)} (labels {labels}, samples {samples}, seed {seed})")
    console.print(rows_table(rows))


def show_circuits(console: Console) -> None:
    """Prints the circuits with what they plant, and the methods."""
    rows: list[dict[str, object]] = []
    for name in ORDER:
        causal = " ".join(f"f{feature}" for feature in decoy_circuit(name).causal)
        rows.append({"circuit": name, "causal": causal, "what is planted": summary(name)})
    console.print(rows_table(rows))
    named = ", ".join(f"{name} ({ATTRIBUTIONS[name].family})" for name in METHODS)
    _say(console, f"methods: {named}")


def show_gate(console: Console, seed_count: int) -> bool:
    """Prints the mean AUROC of every method on every circuit and each statement of theory that does not hold.

    Args:
        console: where to print.
        seed_count: the number of seeds.

    Returns:
        Whether all statements hold.
    """
    cells = measure_cells(seed_count)
    rows: list[dict[str, object]] = []
    for method in METHODS:
        row: dict[str, object] = {"method": method, "family": ATTRIBUTIONS[method].family}
        for name in ORDER:
            aurocs = cells[method, name].aurocs
            row[name] = f"{sum(aurocs) / len(aurocs):.3f}"
        nulls = [auroc for name in ORDER for auroc in cells[method, name].null]
        rows.append({**row, "scrambled": f"{sum(nulls) / len(nulls):.3f}"})
    console.print(rows_table(rows))
    lines = missed_cells(cells)
    for line in lines:
        _say(console, f"missed: {line}")
    if not lines:
        seeds = "seed" if seed_count == 1 else "seeds"
        _say(console, f"all statements hold on {seed_count} {seeds}: dissociation, controls and null")
    return not lines
