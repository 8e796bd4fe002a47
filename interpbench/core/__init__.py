"""The base of all other packages: errors, registries, configuration, estimates, seeds, files, metrics."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports as _exports  # the name `exports` is the module's

if TYPE_CHECKING:
    from interpbench.core.errors import (
        CheckpointError,
        ConfigError,
        DiscoveryError,
        HubError,
        InterpBenchError,
        ScoresError,
        TaskError,
        TrainingError,
        UnknownNameError,
    )
    from interpbench.core.estimate import Estimate
    from interpbench.core.registry import Registry

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DiscoveryError",
    "Estimate",
    "HubError",
    "InterpBenchError",
    "Registry",
    "ScoresError",
    "TaskError",
    "TrainingError",
    "UnknownNameError",
]

__getattr__, __dir__ = _exports(
    __name__,
    {
        **dict.fromkeys(
            (
                "CheckpointError",
                "ConfigError",
                "DiscoveryError",
                "HubError",
                "InterpBenchError",
                "ScoresError",
                "TaskError",
                "TrainingError",
                "UnknownNameError",
            ),
            "interpbench.core.errors",
        ),
        "Estimate": "interpbench.core.estimate",
        "Registry": "interpbench.core.registry",
    },
)
