"""An encoder that is written as a BERT gives the same answers, and is patched as before."""

from pathlib import Path

import pytest
import torch

from interpbench.checkpoints.bert_format import NEVER, save_bert
from interpbench.core.errors import ConfigError
from interpbench.tasks.catalogue import get_task
from interpbench.tasks.shapes import shape
from interpbench.transformer.config import TransformerConfig
from interpbench.transformer.model import Transformer

WORDS = ("[MASK]", "a", "b", "c")
CLASSES = ("one", "two", "a")
SIZES = {"n_layers": 2, "n_heads": 4, "d_model": 12, "d_head": 5, "d_mlp": 20, "n_ctx": 5}


def encoder(**settings) -> Transformer:
    given = {**SIZES, "d_vocab": 6, "d_out": 3, "attention": "bidirectional", **settings}
    network = Transformer(TransformerConfig(**given), seed=1)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "b_" in name:
                weight.normal_(generator=torch.Generator().manual_seed(len(name)))
    return network


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_answers_are_the_same(tmp_path: Path, activation: str) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    network = encoder(activation=activation)
    save_bert(network, WORDS, CLASSES, tmp_path)
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    texts = ["a b [MASK] c", "[MASK] c c b"]
    ids = tokenizer(texts, return_tensors="pt")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids[0]) == ["[CLS]", "a", "b", "[MASK]", "c"]
    assert ids[:, 0].tolist() == [4, 4], "BOS has the code after those of words"
    with torch.no_grad():
        ours, theirs = network(ids), model(ids).logits
    places = tokenizer.convert_tokens_to_ids(list(CLASSES))
    torch.testing.assert_close(theirs[..., places], ours, rtol=1e-4, atol=1e-4)
    others = [place for place in range(len(tokenizer)) if place not in places]
    assert (theirs[..., others] == NEVER).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attention": "causal"}, "attention is causal"),
        ({"normalization": "LN"}, "its norm is LN"),
        ({"activation": "silu"}, "its activation function is silu"),
        ({"mlp": "gated"}, "it has gated MLP"),
        ({"d_out": 1}, "its output is a number"),
        ({"d_head": 7}, "its heads are wider"),
    ],
)
def test_what_a_bert_cannot_be_is_said(tmp_path: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot be written as a BERT: {said}"):
        save_bert(encoder(**settings), WORDS, CLASSES, tmp_path)
    with pytest.raises(ConfigError, match=r"no input has a \[MASK\]"):
        save_bert(encoder(), ("a", "b", "c", "d"), CLASSES, tmp_path)


@pytest.mark.parametrize("name", ["fact_in_early_mlp", "fact_in_late_mlp", "fact_in_head"])
def test_networks_of_masked_tasks_can_be_written(tmp_path: Path, name: str) -> None:
    task = get_task(name)
    classes = task.causal_model.variables[task.causal_model.output].values
    assert classes is not None
    save_bert(Transformer(shape(task)), list(task.vocab), [str(value) for value in classes], tmp_path)
    assert (tmp_path / "model.safetensors").is_file() and (tmp_path / "tokenizer.json").is_file()
