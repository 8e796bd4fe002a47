"""Programs that compute functions of single words: of their letters, length, case or meaning."""

from collections.abc import Callable, Sequence
from typing import Any

from tracr.rasp.rasp import SOp

from interpbench.tasks.catalogue import task
from interpbench.tasks.programs.ops import rasp, select, tokens
from interpbench.tasks.samplers import Edit, often

WORDS = "J LB TPSI V b no oCLrZaW poiVg".split()
_RANDOM_WORDS = """
    ADUdRPP CHChpo DaUUq GFfWd GprQ JaRUhR JkqHMBn LoaeT MOkI MbJmTPSI MeyyMDH MuFb SBvrj TecQo UDIh WUSmTtzQ
    WlGgOtOG WrXPvhsB Wvgfy YEZAm bVrp dzUv eWIXiiQ fJsONxK fLBcbfno fogyrD gQBw iVgRV jOkY kDyrO kxwnQr
    mjxWkIXH nIiUKKE nPFzPD oCLrZaW oRuXXdoc oecv pKff pmmI qVLBLzxo qipVJ vbLJ wwMq xZtp zrenKT
""".split()


def _words(
    name: str,
    legacy_id: int,
    description: str,
    function: Callable[[str], Any],
    vocab: Sequence[str] = (),
    only: Sequence[str] = (),
    balance: Sequence[Edit] = (),
) -> None:
    """Registers a function of each token as a task; its vocabulary is WORDS and `vocab`, or just `only`."""

    @task(
        name,
        legacy_id=legacy_id,
        description=description,
        vocab=only or (*WORDS, *vocab),
        length=9,
        attention="causal",
        balance=balance,
    )
    def _() -> SOp:
        return rasp.Map(function, tokens).named(name)


def _reversed(word: str) -> str:
    return word[::-1]


def _vowel_ratio(word: str) -> float:
    vowels = sum(letter in "aeiou" for letter in word.lower())
    return float("inf") if vowels == len(word) else vowels / (len(word) - vowels)


def _alternate(word: str) -> str:
    return "".join(c.lower() if place % 2 else c.upper() for place, c in enumerate(word))


_words("reverse_words", 28, "Each word spelt backwards.", _reversed, only=_RANDOM_WORDS)
_words(
    "reverse_words_but_one",
    37,
    "Each word spelt backwards, but for one that the vocabulary has not.",
    lambda word: word if word == "nochange" else _reversed(word),
)
_words(
    "truncate_words",
    29,
    "The first three letters of each word, or all of a shorter one.",
    lambda word: word[:3],
)
_words("alternate_case", 35, "Each word with upper and lower case taking turns, upper first.", _alternate)
_words("even_word_length", 33, "True for words of an even number of letters.", lambda w: len(w) % 2 == 0)
_words("vowel_ratio", 34, "The number of vowels of a word over that of its other letters.", _vowel_ratio)
_words(
    "keep_palindromes",
    23,
    "Each word that reads the same backwards; None for others.",
    lambda word: word if word == _reversed(word) else None,
    ("noon", "racecar"),
)
_words(
    "anagram_of_listen",
    31,
    "True for anagrams of listen, of which the vocabulary has this word only.",
    lambda word: sorted(word) == sorted("listen"),
    ("listen",),
    balance=[often(sorted([*WORDS, "listen"]).index("listen"))],
)
_words(
    "spam_flag",
    20,
    "Whether a word is one of the keywords click, now and offer (spam) or not (not spam).",
    lambda word: "spam" if word in ("free", "offer", "click", "now") else "not spam",
    ("click", "now", "offer", "spam"),
)
_words(
    "replace_one_word",
    90,
    "Each word, but a dash in place of findme.",
    lambda word: "-" if word == "findme" else word,
    ("-", "findme"),
)
_words(
    "numeral_in_range",
    30,
    "True for numerals from 10 to 20.",
    lambda word: 10 <= int(word) <= 20 if word.isdigit() else False,
    only=[str(number) for number in range(30)],
)
_words(
    "emoji_sentiment",
    36,
    "Whether an emoji smiles (positive), cries (negative) or does neither (neutral).",
    lambda emoji: {"😊": "positive", "😢": "negative"}.get(emoji, "neutral"),
    only="😊😢📘",
)


@task("keep_symmetric_words", legacy_id=10, vocab=(*WORDS, "radar", "rotor"), length=9, attention="causal")
def keep_symmetric_words() -> SOp:
    """Each word whose halves mirror each other; None for others."""
    half = rasp.Map(lambda word: len(word) // 2, tokens).named("half_length")
    mirrors = lambda word, h: word[:h] == _reversed(word[len(word) - h :])
    symmetric = rasp.SequenceMap(mirrors, tokens, half).named("is_symmetric")
    return rasp.SequenceMap(lambda word, flag: word if flag else None, tokens, symmetric).named("kept")


@task("word_length", legacy_id=11, vocab=WORDS, length=9, attention="causal")
def word_length() -> SOp:
    """The number of letters of each word, fetched from words of the same length."""
    lengths = rasp.Map(len, tokens).named("own_length")
    return rasp.Aggregate(select(lengths, lengths), lengths).named("word_length")
