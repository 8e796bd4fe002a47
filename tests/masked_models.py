"""Tiny masked language models of ten families, random or trained, and facts for them."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from interpbench.masked_lm.encoded_pairs import EncodedPair, encode_pair
from interpbench.masked_lm.fact_specs import DatasetSpec, FactSpec, ModelSpec
from interpbench.masked_lm.prompt_rows import row_of

SHAPE = {
    **{"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64},
    **{"max_position_embeddings": 40, "initializer_range": 0.15},
}
"""A shape with which all families learn; with the default weights those with norms after a sum do not."""
DISTILBERT = {
    **{"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64},
    **{"max_position_embeddings": 40, "initializer_range": 0.15},
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", SHAPE),
    "roberta": ("RobertaConfig", SHAPE),
    "camembert": ("CamembertConfig", SHAPE),
    "distilbert": ("DistilBertConfig", DISTILBERT),
    "modernbert": ("ModernBertConfig", SHAPE),
    "electra": ("ElectraConfig", {**SHAPE, "embedding_size": 16}),
    "deberta": ("DebertaConfig", {**SHAPE, **RELATIVE}),
    "deberta-v2": ("DebertaV2Config", {**SHAPE, **RELATIVE}),
    "albert": ("AlbertConfig", {**SHAPE, "embedding_size": 16}),
    "mpnet": ("MPNetConfig", SHAPE),
}
"""The ten families: the name of the configuration, and its settings."""
PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LANDS = {
    **{"france": "french", "japan": "japanese", "spain": "spanish"},
    **{"andorra": "catalan", "portugal": "portuguese"},
}
"""Lands and their languages; the last two lands, and the last language, are two pieces of words."""
OTHER = {
    **{"france": "japan", "japan": "spain", "spain": "france"},
    **{"andorra": "portugal", "portugal": "andorra"},
}
TEMPLATES = ("people in {} speak {{}}", "the language of {} is {{}}", "{} has {{}} as its language")
WORDS = (
    *("people", "in", "speak", "the", "language", "of", "is", "has", "as", "its", "we", "know", ":", "."),
    *("france", "japan", "spain", "french", "japanese", "spanish", "catalan"),
    *("ando", "##rra", "portu", "##gal", "##guese"),
)


def fact(land: str, template: str) -> FactSpec:
    other = OTHER[land]
    return FactSpec(LANDS[land], LANDS[other], template.format(land), LANDS[land], land, other)


def facts() -> list[FactSpec]:
    """Returns twelve facts whose targets are one piece each."""
    return [fact(land, template) for template in TEMPLATES for land in LANDS if land != "portugal"]


def spec(output: Path, models_of: dict[str, Path], some: list[FactSpec] | None = None) -> DatasetSpec:
    """Returns a specification of facts in one phrasing, for models in folders."""
    named = [ModelSpec(name, str(folder)) for name, folder in models_of.items()]
    return DatasetSpec("lands", "where is it kept?", named, some or facts(), [("", "")], str(output))


def word_pieces() -> Any:
    """Returns a tokenizer of whole words and pieces, as BERT has."""
    tokenizer = Tokenizer(
        models.WordPiece({word: at for at, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return _fast(tokenizer, SPECIAL)


def byte_pairs() -> Any:
    """Returns a byte-level tokenizer, in which words have a leading space, as RoBERTa has."""
    special = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    _learn(tokenizer, trainers.BpeTrainer, special)
    return _fast(tokenizer, special)


def unigrams() -> Any:
    """Returns a tokenizer of pieces that begin with a mark of the space before, as CamemBERT has."""
    special = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    _learn(tokenizer, trainers.UnigramTrainer, special, unk_token="<unk>")
    return _fast(tokenizer, special)


def _learn(tokenizer: Any, kind: Any, special: tuple[str, ...], **more: Any) -> None:
    texts = [f"{one.template.replace('{}', one.target)}." for one in facts()] * 4
    trainer = kind(vocab_size=150, special_tokens=list(special), show_progress=False, **more)
    tokenizer.train_from_iterator(texts, trainer)


def _fast(tokenizer: Any, special: tuple[str, ...]) -> Any:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    first, last = ((word, tokenizer.token_to_id(word)) for word in special[2:4])
    tokenizer.post_processor = processors.TemplateProcessing(
        f"{first[0]} $A {last[0]}", special_tokens=[first, last]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special))
    mask = AddedToken(special[4], lstrip=special[4] == "<mask>", special=True)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token=mask, model_max_length=32, **names)


def untrained(family: str, vocab_size: int, seed: int = 0, **settings: Any) -> Any:
    """Returns a random model of a family."""
    import transformers

    name, shape = FAMILIES[family]
    special = {"pad_token_id": PAD, "bos_token_id": CLS, "eos_token_id": SEP}
    special |= {"cls_token_id": CLS, "sep_token_id": SEP} if family == "modernbert" else {}
    config = getattr(transformers, name)(vocab_size=vocab_size, **{**shape, **settings}, **special)
    torch.manual_seed(seed)
    return transformers.AutoModelForMaskedLM.from_config(config, attn_implementation="eager").eval()


def save(folder: Path, model: Any, tokenizer: Any) -> Path:
    """Writes a model and its tokenizer into a folder, which is then a `huggingface_id`."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make(folder: Path, family: str, seed: int = 0, **settings: Any) -> Path:
    """Makes a random model in a folder."""
    tokenizer = word_pieces()
    return save(folder, untrained(family, len(tokenizer), seed, **settings), tokenizer)


def train(folder: Path, family: str, steps: int = 200) -> Path:
    """Makes a model in a folder that knows all facts."""
    tokenizer = word_pieces()
    model = untrained(family, len(tokenizer)).train()
    pairs = [encode_pair(tokenizer, row_of(one, "", "")) for one in facts()]
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    torch.manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        _loss(model, pairs).backward()
        optimizer.step()
    return save(folder, model.eval(), tokenizer)


def _loss(model: Any, pairs: list[EncodedPair]) -> torch.Tensor:
    longest = max(len(pair.clean) for pair in pairs)
    ids, labels = torch.full((len(pairs), longest), PAD), torch.full((len(pairs), longest), -100)
    for row, pair in enumerate(pairs):
        ids[row, : len(pair.clean)] = torch.tensor(pair.clean)
        labels[row, list(pair.places["mask"])] = torch.tensor(pair.target)
    return model(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss
