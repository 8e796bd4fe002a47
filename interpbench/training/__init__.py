"""Training by interchange interventions: draws, losses, their weighted sum, validation and certificates."""

from typing import TYPE_CHECKING

from interpbench.core.exports import exports

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

__getattr__, __dir__ = exports(
    __name__,
    {
        "CertificateSettings": "interpbench.training.settings",
        "Curriculum": "interpbench.training.curriculum",
        "Draws": "interpbench.training.draws",
        "Evaluation": "interpbench.training.interventional_accuracy",
        "Objective": "interpbench.training.objective",
        "Recipe": "interpbench.training.recipe",
        "Result": "interpbench.training.trainer",
        "Trainer": "interpbench.training.trainer",
        "TrainerSettings": "interpbench.training.settings",
        "Validation": "interpbench.training.validation",
        "certify": "interpbench.training.measure_certificate",
        "validate": "interpbench.training.validation",
    },
)
