"""Circuit-discovery methods: each gets a network and its inputs, never the true circuit, and scores edges."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.discovery.isolated_run import apply
    from interpbench.discovery.method import Method, get_method, methods
    from interpbench.discovery.method_record import MethodRecord

__all__ = [
    "Method",
    "MethodRecord",
    "apply",
    "get_method",
    "methods",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "apply": "interpbench.discovery.isolated_run",
        **dict.fromkeys(("Method", "get_method", "methods"), "interpbench.discovery.method"),
        "MethodRecord": "interpbench.discovery.method_record",
    },
)
