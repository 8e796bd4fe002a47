"""A small transformer that runs many rows at once, each with interventions of its own (the kernel)."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.transformer.config import TransformerConfig
    from interpbench.transformer.fast.run_circuits import CircuitLogits, SingleEdges, run_circuits
    from interpbench.transformer.head_parts import HeadParts
    from interpbench.transformer.interventions import Interventions
    from interpbench.transformer.model import Transformer
    from interpbench.transformer.recording import ActivationCache, record
    from interpbench.transformer.routes import Replaced, RoutedWriters, Routes
    from interpbench.transformer.taps import Taps

__all__ = [
    "ActivationCache",
    "CircuitLogits",
    "HeadParts",
    "Interventions",
    "Replaced",
    "RoutedWriters",
    "Routes",
    "SingleEdges",
    "Taps",
    "Transformer",
    "TransformerConfig",
    "record",
    "run_circuits",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "ActivationCache": "interpbench.transformer.recording",
        "CircuitLogits": "interpbench.transformer.fast.run_circuits",
        "HeadParts": "interpbench.transformer.head_parts",
        "Interventions": "interpbench.transformer.interventions",
        "Replaced": "interpbench.transformer.routes",
        "RoutedWriters": "interpbench.transformer.routes",
        "Routes": "interpbench.transformer.routes",
        "SingleEdges": "interpbench.transformer.fast.run_circuits",
        "Taps": "interpbench.transformer.taps",
        "Transformer": "interpbench.transformer.model",
        "TransformerConfig": "interpbench.transformer.config",
        "record": "interpbench.transformer.recording",
        "run_circuits": "interpbench.transformer.fast.run_circuits",
    },
)
