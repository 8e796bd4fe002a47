"""Training by interchange interventions: draws, losses, their weighted sum, validation and certificates."""

from typing import TYPE_CHECKING

from interpbench.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from interpbench.training.curriculum import Curriculum
    from interpbench.training.draws import Draws
    from interpbench.training.interventional_accuracy import Evaluation
    from interpbench.training.measure_certificate import certify
    from interpbench.training.objective import Objective
    from interpbench.training.recipe import Recipe
    from interpbench.training.settings import CertificateSettings, TrainerSettings
    from interpbench.training.trainer import Result, Trainer
    from interpbench.training.validation import Validation, validate

__all__ = [
    "CertificateSettings",
    "Curriculum",
    "Draws",
    "Evaluation",
    "Objective",
    "Recipe",
    "Result",
    "Trainer",
    "TrainerSettings",
    "Validation",
    "certify",
    "validate",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "CertificateSettings": "settings",
        "Curriculum": "curriculum",
        "Draws": "draws",
        "Evaluation": "interventional_accuracy",
        "Objective": "objective",
        "Recipe": "recipe",
        "Result": "trainer",
        "Trainer": "trainer",
        "TrainerSettings": "settings",
        "Validation": "validation",
        "certify": "measure_certificate",
        "validate": "validation",
    },
)
