"""Domains of words written in the tokens of a Hugging Face tokenizer, which are called pieces here."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from interpbench.causal.model import NONE
from interpbench.core import seeds
from interpbench.core.errors import TaskError
from interpbench.tasks.domain import Corruption, Domain
from interpbench.tasks.stratum import PartDraw, Stratum

log = logging.getLogger(__name__)
CHECKED = 256
"""The number of prompts on which it is checked that the tokenizer splits texts between words."""


class Words:
    """A tokenizer, which gives the pieces of words: a word is written with the space before it.

    Punctuation is written without the space.

    Args:
        name: a folder with a `tokenizer.json`, the path of such a file, or a name on the Hugging Face Hub
            (`gpt2`), which is downloaded unless it is in the cache.

    Raises:
        TaskError: if there is no such tokenizer.
    """

    def __init__(self, name: str):
        from tokenizers import Tokenizer

        self.name, path = name, Path(name)
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            self._tokenizer = Tokenizer.from_file(str(file if file.is_file() else _downloaded(name)))
        except Exception as error:  # noqa: BLE001 (the hub's errors and the tokenizer's have no base in common)
            reason = " ".join(str(error).split()).partition(". ")[0]
            raise TaskError(
                f"there is no tokenizer {name!r}, neither on disk nor on the Hugging Face Hub: {reason}"
            ) from None

    def pieces(self, word: str) -> tuple[int, ...]:
        """Returns the ids of a word's pieces."""
        return self.ids(self.text([word]))

    def text(self, words: Sequence[str]) -> str:
        """Returns the text of words, which begins with a space."""
        return "".join(f" {word}" if word[0].isalnum() else word for word in words)

    def ids(self, text: str) -> tuple[int, ...]:
        """Returns the ids of a text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def piece(self, number: int) -> str:
        """Returns the text of a piece, given its id, as the tokenizer writes it (GPT-2's space is `Ġ`)."""
        return str(self._tokenizer.id_to_token(number))

    def single(self, words: Sequence[str], least: int) -> tuple[str, ...]:
        """Returns the words that are one piece each, and logs those that are not.

        Raises:
            TaskError: if fewer than `least` words are one piece each.
        """
        one = tuple(word for word in words if len(self.pieces(word)) == 1)
        several = [word for word in words if word not in one]
        if len(one) < least:
            raise TaskError(
                f"tokenizer {self.name!r}: only {len(one)} of {len(words)} names are a single token, fewer "
                f"than {least}; choose another tokenizer"
            )
        if several:
            log.info(
                "tokenizer %s: these words are left out as each is several tokens: %s",
                self.name,
                ", ".join(several),
            )
        return one


class Tokenized(Domain):
    """A domain of words whose inputs are written in pieces.

    Args:
        words: the domain of words; its codes are indices in `vocab`.
        vocab: the words.
        length: the number of words of the longest input.
        tokenizer: the tokenizer, which gives the pieces of a word.
        first: the number of words at the start of `vocab` that are one piece each; they keep their codes.

    Attributes:
        ids: the tokenizer's id of each piece; a piece's code is its index here.
        vocab: the text of each piece.
        length: the number of pieces of the longest input.

    Raises:
        TaskError: if the tokenizer does not split texts between words, or the pieces of some words can be
            read as other words.
    """

    def __init__(self, words: Domain, vocab: Sequence[str], length: int, tokenizer: Words, first: int):
        self.words, self._words_length = words, length
        pieces = list(map(tokenizer.pieces, vocab))
        leading = [ids[0] for ids in pieces[:first]]
        others = sorted({number for ids in pieces[first:] for number in ids} - set(leading))
        self.ids = (*leading, *others)
        self.vocab = tuple(map(tokenizer.piece, self.ids))
        code = {number: place for place, number in enumerate(self.ids)}
        self._codes = [tuple(code[number] for number in ids) for ids in pieces]
        self._word_of = {codes: word for word, codes in enumerate(self._codes)}
        self._most = max(map(len, self._codes))
        self._table = np.full((len(vocab) + 1, self._most), NONE, np.int16)  # the last row is None's
        for word, codes in enumerate(self._codes):
            self._table[word, : len(codes)] = codes
        self.length = self._words_length * self._most
        rows = words.sample(seeds.generator(0, "tokenizer"), CHECKED)
        encoded = self.encode(rows)
        for row, codes in zip(rows, encoded):
            text = tokenizer.text([str(vocab[word]) for word in row.tolist() if word >= 0])
            if tuple(self.ids[c] for c in codes if c >= 0) != tokenizer.ids(text):
                raise TaskError(f"tokenizer {tokenizer.name!r} does not split {text!r} between words")
        if not np.array_equal(self.decode(encoded), rows):
            raise TaskError(
                f"tokenizer {tokenizer.name!r}: the tokens of some words can be read as other words"
            )
        self.length = int((encoded >= 0).sum(1).max()) + self._most

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """Returns the pieces `[row, length]` of words `[row, pos]`."""
        pieces = self._table[rows].reshape(len(rows), -1)
        order = np.argsort(pieces < 0, axis=1, kind="stable")[:, : self.length]
        encoded = np.full((len(rows), self.length), NONE, np.int16)
        encoded[:, : order.shape[1]] = np.take_along_axis(pieces, order, 1)
        return encoded

    def decode(self, rows: np.ndarray) -> np.ndarray:
        """Returns the words of pieces `[row, pos]`, the longest word that begins at each piece.

        Raises:
            TaskError: if no word begins at some piece.
        """
        decoded = np.full((len(rows), self._words_length), NONE, np.int16)
        for number, row in enumerate(rows.tolist()):
            pieces = tuple(piece for piece in row if piece >= 0)
            place = count = 0
            while place < len(pieces):
                for size in range(self._most, 0, -1):
                    word = self._word_of.get(pieces[place : place + size])
                    if word is not None:
                        break
                else:
                    raise TaskError(f"no word begins with the piece {self.vocab[pieces[place]]!r}")
                decoded[number, count] = word
                place, count = place + size, count + 1
        return decoded

    @property
    def size(self) -> int:
        """The exact number of inputs, the same as in words."""
        return self.words.size

    @property
    def enumerated(self) -> bool:
        """Whether the domain of words is enumerated."""
        return self.words.enumerated

    def all(self) -> np.ndarray:
        """Returns every input, `[size, length]`."""
        return self.encode(self.words.all())

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draws inputs in words and returns their pieces `[count, length]`."""
        return self.encode(self.words.sample(rng, count))

    def draw(self, rng: np.random.Generator, count: int, held_out: bool = False) -> np.ndarray:
        """Draws inputs of a part in words and returns their pieces `[count, length]`."""
        return self.encode(self.words.draw(rng, count, held_out))

    def is_held_out(self, tokens: np.ndarray) -> np.ndarray:
        """Returns bool `[row]`, which inputs are held out in words."""
        return self.words.is_held_out(self.decode(tokens))

    def sources(self, rng: np.random.Generator, base: np.ndarray, held_out: bool = False) -> np.ndarray:
        """Draws sources in words and returns their pieces `[row, length]`."""
        return self.encode(self.words.sources(rng, self.decode(base), held_out))

    def strata(self) -> Sequence[Stratum]:
        """Returns the strata of the domain of words."""

        def draw(of: PartDraw) -> PartDraw:
            return lambda rng, count, held_out: self.encode(of(rng, count, held_out))

        return [
            Stratum(
                stratum.name,
                lambda rows, stratum=stratum: stratum.has(self.decode(rows)),
                None if stratum.draw is None else draw(stratum.draw),
                stratum.whole,
            )
            for stratum in self.words.strata()
        ]

    @property
    def corruptions(self) -> Mapping[str, Corruption]:
        """The corruptions of the domain of words."""

        def of(corruption: Corruption) -> Corruption:
            return lambda rng, tokens: self.encode(corruption(rng, self.decode(tokens)))

        return {name: of(corruption) for name, corruption in self.words.corruptions.items()}


def _downloaded(name: str) -> str:
    """Returns the file of a tokenizer of the Hugging Face Hub in the cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # each attempt would be a line; the error says all
    try:
        return hf_hub_download(name, "tokenizer.json")
    finally:
        logging.set_verbosity(level)
