"""The alignment of a program's variables with a network's nodes, and the ground truth that follows."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

if TYPE_CHECKING:
    from interpbench.alignment.alignment import Alignment, align
    from interpbench.alignment.find_ground_truth import find_truth

__all__ = ["Alignment", "align", "find_truth"]

__getattr__, __dir__ = exports(
    __name__,
    {
        "Alignment": "interpbench.alignment.alignment",
        "align": "interpbench.alignment.alignment",
        "find_truth": "interpbench.alignment.find_ground_truth",
    },
)
