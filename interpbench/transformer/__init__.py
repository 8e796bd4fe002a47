"""A small transformer that runs many rows at once, each with interventions of its own (the kernel)."""

from typing import TYPE_CHECKING

from interpbench.core.lazy_exports import lazy_exports

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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "ActivationCache": "recording",
        "CircuitLogits": "fast.run_circuits",
        "HeadParts": "head_parts",
        "Interventions": "interventions",
        "Replaced": "routes",
        "RoutedWriters": "routes",
        "Routes": "routes",
        "SingleEdges": "fast.run_circuits",
        "Taps": "taps",
        "Transformer": "model",
        "TransformerConfig": "config",
        "record": "recording",
        "run_circuits": "fast.run_circuits",
    },
)
