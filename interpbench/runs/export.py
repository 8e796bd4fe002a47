"""Writes a model for TransformerLens 1 to 3, or as a BERT, and says how it is opened there."""

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


def export_bert(name: str, out: Path | None = None) -> None:
    """Writes the encoder that `name` means as a BERT to a folder, by default `runs/bert/<task>`.

    Raises:
        CheckpointError: if there is no such model, or several.
        ConfigError: if it is none that a BERT can be.
    """
    checkpoint = load(name)
    from interpbench.checkpoints.bert_format import MASK, save_bert

    record, folder = checkpoint.record, out or Path("runs") / "bert" / checkpoint.task
    words = [str(word) for word in record.vocabulary[:-2]]  # without BOS and PAD
    save_bert(checkpoint.network, words, [str(value) for value in record.classes or ()], folder)
    log.info("wrote %s; transformers.AutoModelForMaskedLM reads it, and fills in %s", folder, MASK)
