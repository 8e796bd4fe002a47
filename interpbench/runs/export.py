"""Writes a model for TransformerLens 1 to 3, and says how it is opened there."""

import logging
from pathlib import Path

from interpbench.runs.api import load

log = logging.getLogger(__name__)
HOW = """\
wrote {folder}; in TransformerLens 1 to 3:
  config = HookedTransformerConfig(**json.load(open("{folder}/{config}")))
  model = HookedTransformer(config)
  model.load_state_dict(safetensors.torch.load_file("{folder}/{state}"))"""


def export(name: str, out: Path | None = None) -> None:
    """Writes the model that `name` means to a folder, by default `runs/transformer-lens/<task>`.

    Raises:
        CheckpointError: if there is none, or several.
    """
    checkpoint = load(name)
    from interpbench.checkpoints.hooked import CONFIG, STATE, save_hooked

    folder = out or Path("runs") / "transformer-lens" / checkpoint.task
    save_hooked(checkpoint.network, folder)
    log.info("%s", HOW.format(folder=folder, config=CONFIG, state=STATE))
