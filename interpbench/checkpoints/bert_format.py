"""Encoders as Hugging Face's BERT: a folder that `AutoModelForMaskedLM.from_pretrained` reads.

A BERT normalises what each part adds to its stream, and ours does not. Two tricks make a BERT with the same
answers. Its stream is twice as wide: x stands as (x, -x), whose mean is 0. And the constant that its norms
add to the variance is so large, and their scale with it, that they divide and multiply by the same number.
What predicts at a mask has an activation function, for which f(x) - f(-x) = x: GELU and ReLU.

Inputs are words, and so are outputs: the vocabulary has both.

Shapes: D d_model, H heads, E d_head.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interpbench.core.errors import CheckpointError, ConfigError
from interpbench.transformer.layers import Block, Mlp
from interpbench.transformer.model import Transformer

LARGE = 1e12
"""The constant that norms add to the variance, beside which activations do not count in 32 bits."""
NEVER = -1e4
"""The logit of words that are no outputs."""
BOS, PAD, MASK, UNKNOWN = "[CLS]", "[PAD]", "[MASK]", "[UNK]"


def save_bert(network: Transformer, words: Sequence[str], classes: Sequence[str], folder: Path) -> None:
    """Writes an encoder and its tokenizer as those of a BERT.

    Args:
        network: the network.
        words: the tokens of inputs, in the order of their codes, without BOS and PAD; `[MASK]` among them.
        classes: the outputs, in the order of classes.
        folder: where to.

    Raises:
        ConfigError: if the network is none that a BERT can be, or an input has no mask.
    """
    from transformers import BertConfig, BertForMaskedLM
    from transformers.utils import logging as said_by

    _check(network, words)
    cfg = network.cfg
    vocabulary = [*words, BOS, PAD, *(name for name in classes if name not in words), UNKNOWN]
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=2 * cfg.d_model,
        num_hidden_layers=cfg.n_layers,
        num_attention_heads=cfg.n_heads,
        intermediate_size=cfg.d_mlp,
        hidden_act=cfg.activation,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=cfg.n_ctx,
        type_vocab_size=1,
        layer_norm_eps=LARGE,
        pad_token_id=vocabulary.index(PAD),
        tie_word_embeddings=False,
    )
    model = BertForMaskedLM(config).eval()
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    state |= {name: torch.full_like(value, LARGE**0.5) for name, value in state.items() if _is_scale(name)}
    with torch.no_grad():
        _embeddings(state, network)
        for layer, block in enumerate(network.blocks):
            _layer(state, f"bert.encoder.layer.{layer}", block)  # type: ignore[arg-type]
        _predictions(state, network, [vocabulary.index(name) for name in classes])
    model.load_state_dict(state)
    said_by.disable_progress_bar()
    try:
        model.save_pretrained(folder)
        _tokenizer(vocabulary, cfg.n_ctx).save_pretrained(folder)
    except OSError as error:
        raise CheckpointError(f"cannot write {folder}: {error.strerror}") from None


def _check(network: Transformer, words: Sequence[str]) -> None:
    """Checks that a BERT can have the network's answers.

    Raises:
        ConfigError: in one line that says what it cannot have.
    """
    cfg = network.cfg
    wrong = {
        "attention is causal": cfg.attention == "causal",
        f"its norm is {cfg.normalization}": cfg.normalization is not None,
        f"it has {' and '.join(cfg.features)}": bool(cfg.features),
        f"its activation function is {cfg.activation}": cfg.activation not in ("gelu", "relu"),
        "its output is a number": cfg.d_out == 1,
        "its heads are wider than a share of twice the stream": cfg.n_heads * cfg.d_head > 2 * cfg.d_model,
        "its width is no multiple of half its heads": bool(2 * cfg.d_model % cfg.n_heads),
        f"no input has a {MASK}": MASK not in words,
    }
    if why := [said for said, there in wrong.items() if there]:
        raise ConfigError(f"the network cannot be written as a BERT: {why[0]}")


def _is_scale(name: str) -> bool:
    return name.endswith("LayerNorm.weight")


def _twice(written: Tensor) -> Tensor:
    """Returns what is written to both halves of the stream, `[..., 2 D]`, of `[..., D]`."""
    return torch.cat([written, -written], -1)


def _embeddings(state: dict[str, Tensor], network: Transformer) -> None:
    assert network.pos_embed is not None
    words, positions = network.embed.W_E, network.pos_embed.W_pos
    state["bert.embeddings.word_embeddings.weight"][: len(words)] = _twice(words)
    state["bert.embeddings.position_embeddings.weight"][:] = _twice(positions)


def _layer(state: dict[str, Tensor], name: str, block: Block) -> None:
    """Fills a layer of a BERT; its heads are wider, and what is left of them stays 0."""
    attention, mlp = block.attn, block.mlp
    assert isinstance(mlp, Mlp)
    heads, width, inner = attention.W_Q.shape
    outer = 2 * width // heads  # the width of a head of the BERT

    def part(key: str, rows: Tensor, biases: Tensor) -> None:
        """Fills a map to queries, keys or values: `rows [H, D, E]`, `biases [H, E]`."""
        weight = state[f"{name}.attention.self.{key}.weight"].view(heads, outer, 2 * width)
        weight[:, :inner, :width] = rows.transpose(1, 2)
        state[f"{name}.attention.self.{key}.bias"].view(heads, outer)[:, :inner] = biases

    scale = (outer / inner) ** 0.5  # queries are divided by the root of the wider head
    part("query", scale * attention.W_Q, scale * attention.b_Q)
    part("key", attention.W_K, attention.b_K)
    part("value", attention.W_V, attention.b_V)
    output = state[f"{name}.attention.output.dense.weight"].view(2 * width, heads, outer)
    output[:, :, :inner] = _twice(attention.W_O).permute(2, 0, 1)
    state[f"{name}.attention.output.dense.bias"][:] = _twice(attention.b_O)
    state[f"{name}.intermediate.dense.weight"][:, :width] = mlp.W_in.T
    state[f"{name}.intermediate.dense.bias"][:] = mlp.b_in
    state[f"{name}.output.dense.weight"][:] = _twice(mlp.W_out).T
    state[f"{name}.output.dense.bias"][:] = _twice(mlp.b_out)


def _predictions(state: dict[str, Tensor], network: Transformer, places: Sequence[int]) -> None:
    """Fills what predicts at a mask: x as f(x) - f(-x), then the unembedding, for the words of outputs."""
    weight, bias = network.unembed.W_U, network.unembed.b_U
    name = "cls.predictions"
    state[f"{name}.transform.dense.weight"][:] = torch.eye(2 * len(weight))
    state[f"{name}.decoder.weight"][list(places)] = _twice(weight.T)
    for key in (f"{name}.bias", f"{name}.decoder.bias"):
        state[key][:] = NEVER
        state[key][list(places)] = bias


def _tokenizer(vocabulary: Sequence[str], length: int) -> Any:
    """Returns a tokenizer of whole words, which puts BOS before a sentence and nothing after it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    codes = {word: code for code, word in enumerate(vocabulary)}
    tokenizer: Any = Tokenizer(WordLevel(codes, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, codes[BOS])])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token=BOS,
        pad_token=PAD,
        mask_token=MASK,
        unk_token=UNKNOWN,
        model_max_length=length,
    )
