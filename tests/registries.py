"""What tests register is forgotten afterwards, so that no test sees the tasks and methods of another."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interpbench.circuits.io import form as score_forms
from interpbench.decoys import feature_methods
from interpbench.discovery import method as methods
from interpbench.scoring import ranking_metrics, row_metrics
from interpbench.tasks import catalogue, metrics


@contextmanager
def as_before() -> Iterator[None]:
    """Restores tasks, methods, forms of scores and metrics to what was registered at its beginning."""
    registries = (
        *(catalogue.catalogue(), methods.methods(), score_forms.forms()),
        *(metrics.METRICS, feature_methods.ATTRIBUTIONS),
    )
    mappings: list[dict[str, Any]] = [
        *(mapping for registry in registries for mapping in (registry._values, registry._aliases)),
        *(catalogue._families, catalogue._members, ranking_metrics.RANKING, row_metrics.ROW),
    ]
    before = [dict(mapping) for mapping in mappings]
    yield
    for mapping, values in zip(mappings, before):
        mapping.clear()
        mapping.update(values)
