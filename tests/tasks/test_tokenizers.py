"""Tasks of words in the tokens of a tokenizer, made here and read from disk as one of the hub would be."""

import logging
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from interpbench.causal.model import changed
from interpbench.core import old_names
from interpbench.core.errors import TaskError
from interpbench.tasks.catalogue import get_task, known_task, program_of
from interpbench.tasks.data import draw_pairs
from interpbench.tasks.family import with_parameters
from interpbench.tasks.handwritten.ioi import large
from interpbench.tasks.handwritten.ioi.words import NAMES
from interpbench.tasks.tokenizers import Tokenized, Words


def tokenized(folder: Path) -> str:
    return with_parameters("ioi", {"tokenizer": str(folder)})


def make(folder: Path, texts: list[str], size: int) -> Path:
    """Writes a byte-level BPE tokenizer like GPT-2's, learned from some texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Knows most names as one token, some names and most other words as several."""
    texts = [f" {name}" for name in NAMES[:90]] * 50 + [" the , . and went to gave store"]
    return make(tmp_path_factory.mktemp("tokenizer"), texts, 256 + 700)


def test_prompts_are_the_same_in_tokens(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        task = get_task(tokenized(folder))
    inputs = task.domain
    assert isinstance(inputs, Tokenized)
    words = Words(str(folder))
    left_out = [name for name in NAMES if len(words.pieces(name)) > 1]
    assert left_out and all(name in caplog.text for name in left_out), "it says which are not one token"
    names = [name for name in NAMES if name not in left_out]
    assert [word.lstrip("Ġ") for word in task.vocab[: len(names)]] == names
    assert all(word.startswith("Ġ") for word in task.vocab[: len(names)]), "with its leading space"
    rng = np.random.default_rng(0)
    plain = inputs.words.draw(rng, 64)
    encoded = inputs.encode(plain)
    assert encoded.shape[1] == task.length and not np.array_equal(encoded[:, : plain.shape[1]], plain)
    np.testing.assert_array_equal(inputs.decode(encoded), plain)
    reader = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocab = [*names, *large.places, *large.objects]
    vocab += list(inputs.words.vocab[len(vocab) :])  # type: ignore[attr-defined]
    for row, pieces in zip(plain, encoded):
        text = "".join(w if w in ".," else f" {w}" for w in (vocab[c] for c in row if c >= 0))
        assert reader.decode([inputs.ids[c] for c in pieces if c >= 0]) == text


def test_answers_are_those_of_the_words(folder: Path) -> None:
    task = get_task(tokenized(folder))
    inputs = task.domain
    assert isinstance(inputs, Tokenized)
    rng = np.random.default_rng(1)
    plain = inputs.words.draw(rng, 256)
    positions = inputs.words.positions(plain)  # type: ignore[attr-defined]
    answers = task.causal_model.outputs(inputs.encode(plain))
    rows, places = np.nonzero(answers >= 0)
    np.testing.assert_array_equal(rows, np.arange(256))
    np.testing.assert_array_equal(answers[rows, places], plain[np.arange(256), positions["io"]])
    for name, corruption in inputs.corruptions.items():
        base = inputs.encode(plain)
        after = task.causal_model.outputs(corruption(rng, base))
        if name == "swap":
            assert changed(answers, after).any(1).all()
    assert (inputs.is_held_out(inputs.draw(rng, 64, True))).all()
    assert draw_pairs(task, 32).clean.shape == (32, task.length + 1)


def test_a_tokenizer_that_cannot_be_used_is_one_line(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(TaskError, match=r"only 0 of 100 names are a single token"):
        get_task(tokenized(make(tmp_path / "tiny", ["x"], 260)))
    with pytest.raises(TaskError, match=r"no tokenizer '.*nowhere', neither on disk nor on the") as caught:
        get_task(tokenized(tmp_path / "nowhere"))
    assert "\n" not in str(caught.value)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tokenizer.json").write_text("{")
    with pytest.raises(TaskError, match="no tokenizer"):
        get_task(tokenized(tmp_path / "broken"))
    with pytest.raises(TaskError, match=r"task hist has no parameters; ioi, ioi_next_token"):
        get_task("hist[tokenizer=gpt2]")


def test_the_old_name_of_a_task_in_tokens_is_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    old_names._warn.cache_clear()
    old = f"ioi[{str(folder).replace('/', '--')}]"
    task = get_task(old)
    assert task is get_task(tokenized(folder)) is known_task(old) and task.name == tokenized(folder)
    assert f"{old} is now {task.name}; only this version reads the old name" in caplog.text
    assert program_of(old) == program_of(task.name) == task.program_name == "ioi"
