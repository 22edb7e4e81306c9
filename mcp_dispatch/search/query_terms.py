"""A question in words, weighed: which words, notions and domains to look for."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from mcp_dispatch.search.query import readable
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem, words_of_prose
from mcp_dispatch.search.weights import Weights

_SHORTEST = 5
_LONGEST = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def corrected(word: str, spellings: Mapping[str, float]) -> str:
    """The most used of the known words one edit away (two letters swapped, one missing, wrong or too
    many), else the word itself. The first letter is taken as right."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii() and word.isalpha()):
        return word
    guesses = filter(spellings.__contains__, _one_edit_away(word))
    return max(guesses, key=spellings.__getitem__, default=word)


def _one_edit_away(word: str) -> Iterator[str]:
    places = range(1, len(word))
    for at in places[:-1]:
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(1, len(word) + 1):
        for letter in _LETTERS:
            yield word[:at] + letter + word[at:]
    for at in places:
        for letter in _LETTERS:
            yield word[:at] + letter + word[at + 1 :]
    for at in places:
        yield word[:at] + word[at + 1 :]


_MOST_WORDS = 200
_MOST_CORRECTIONS = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for: how much it counts, and the words of the question that say so."""

    weight: float
    said: str


@dataclass(frozen=True, slots=True)
class Question:
    """Every word as it was asked, and what to look for: the words that carry meaning by their
    stems, the notions behind them, and the domains that they belong to."""

    asked: tuple[str, ...]
    words: dict[str, Asked]
    notions: dict[int, Asked]
    domains: dict[str, float]


class Interpreter:
    """Makes a question of words.

    `spellings` are the words that tools use: a word that nobody knows is corrected to one of them,
    and two neighbours that are one word there (`file system`) are taken as both.
    """

    def __init__(self, lexicon: Lexicon, spellings: Mapping[str, float], weights: Weights) -> None:
        self._lexicon = lexicon
        self._spellings = spellings
        self._weights = weights

    def understand(self, text: str) -> Question:
        asked = words_of_prose(readable(text))[:_MOST_WORDS]
        words = list(self._spelled(asked))
        stems = list(map(stem, words))
        notions = self._notions(words, stems)
        return Question(tuple(asked), self._words(words, stems), notions, self._domains(notions))

    def _spelled(self, words: list[str]) -> Iterator[str]:
        left = _MOST_CORRECTIONS
        for word in words:
            known = self._knows(word)
            left -= not known
            yield word if known or left < 0 else corrected(word, self._spellings)

    def _knows(self, word: str) -> bool:
        lexicon = self._lexicon
        return word in self._spellings or word in lexicon.stop_words or lexicon.knows(stem(word))

    def _words(self, words: list[str], stems: list[str]) -> dict[str, Asked]:
        said: dict[str, str] = {}
        times: Counter[str] = Counter()
        for word, stemmed in zip(words, stems, strict=True):
            if word not in self._lexicon.stop_words:
                said.setdefault(stemmed, word)
                times[stemmed] += 1
        asked = {s: Asked(self._kind(s) * math.sqrt(times[s]), said[s]) for s in said}
        for first, second in pairwise(words):
            if first + second in self._spellings:
                compound = Asked(self._weights.compound, f"{first} {second}")
                asked.setdefault(stem(first + second), compound)
        return asked

    def _kind(self, stemmed: str) -> float:
        notions = self._lexicon.spoken_by(stemmed)
        acts = any(self._lexicon.domain(notion) is None for notion in notions)
        return self._weights.action if acts else 1.0

    def _notions(self, words: list[str], stems: list[str]) -> dict[int, Asked]:
        found: dict[int, Asked] = {}
        for heard in self._lexicon.in_question(stems):
            if heard.notion not in found:
                acts = self._lexicon.domain(heard.notion) is None
                weight = self._weights.notion * (self._weights.action if acts else 1.0)
                found[heard.notion] = Asked(weight, " ".join(words[heard.start : heard.end]))
        return found

    def _domains(self, notions: dict[int, Asked]) -> dict[str, float]:
        votes = Counter(filter(None, map(self._lexicon.domain, notions)))
        total = votes.total()
        return {domain: self._weights.domain * vote / total for domain, vote in votes.items()}
