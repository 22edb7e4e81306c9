"""A question in words, weighed: which words, notions and domains to look for."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from mcp_dispatch.search.query import replace_pasted_text
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import split_prose, stem
from mcp_dispatch.search.weights import SearchWeights

_MIN_CORRECTED_CHARS = 5
_MAX_CORRECTED_CHARS = 20
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def fix_spelling(word: str, spellings: Mapping[str, float]) -> str:
    """The most used of the known words one edit away (two letters swapped, one missing, wrong or too
    many), else the word itself. The first letter is taken as right."""
    if not (
        _MIN_CORRECTED_CHARS <= len(word) <= _MAX_CORRECTED_CHARS
        and word.isascii()
        and word.isalpha()
    ):
        return word
    guesses = filter(spellings.__contains__, _generate_edits(word))
    return max(guesses, key=spellings.__getitem__, default=word)


def _generate_edits(word: str) -> Iterator[str]:
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


_MAX_WORDS = 200
_MAX_CORRECTIONS = 8


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """What is looked for: how much it counts, and the words of the question that say so."""

    weight: float
    query_words: str


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """Every word as it was asked, and what to look for: the words that carry meaning by their
    stems, the notions behind them, and the domains that they belong to."""

    raw_words: tuple[str, ...]
    words: dict[str, QueryTerm]
    concepts: dict[int, QueryTerm]
    domains: dict[str, float]


class QueryInterpreter:
    """Makes a question of words.

    `spellings` are the words that tools use: a word that nobody knows is corrected to one of them,
    and two neighbours that are one word there (`file system`) are taken as both.
    """

    def __init__(
        self, lexicon: Lexicon, spellings: Mapping[str, float], weights: SearchWeights
    ) -> None:
        self._lexicon = lexicon
        self._spellings = spellings
        self._weights = weights

    def analyze(self, text: str) -> WeightedQuery:
        asked = split_prose(replace_pasted_text(text))[:_MAX_WORDS]
        words = list(self._fix_spellings(asked))
        stems = list(map(stem, words))
        notions = self._collect_concepts(words, stems)
        return WeightedQuery(
            tuple(asked), self._collect_words(words, stems), notions, self._collect_domains(notions)
        )

    def _fix_spellings(self, words: list[str]) -> Iterator[str]:
        left = _MAX_CORRECTIONS
        for word in words:
            known = self._is_known(word)
            left -= not known
            yield word if known or left < 0 else fix_spelling(word, self._spellings)

    def _is_known(self, word: str) -> bool:
        lexicon = self._lexicon
        return (
            word in self._spellings
            or word in lexicon.stop_words
            or lexicon.contains_stem(stem(word))
        )

    def _collect_words(self, words: list[str], stems: list[str]) -> dict[str, QueryTerm]:
        said: dict[str, str] = {}
        times: Counter[str] = Counter()
        for word, stemmed in zip(words, stems, strict=True):
            if word not in self._lexicon.stop_words:
                said.setdefault(stemmed, word)
                times[stemmed] += 1
        asked = {s: QueryTerm(self._choose_weight(s) * math.sqrt(times[s]), said[s]) for s in said}
        for first, second in pairwise(words):
            if first + second in self._spellings:
                compound = QueryTerm(self._weights.compound, f"{first} {second}")
                asked.setdefault(stem(first + second), compound)
        return asked

    def _choose_weight(self, stemmed: str) -> float:
        notions = self._lexicon.find_concepts(stemmed)
        acts = any(self._lexicon.find_domain(notion) is None for notion in notions)
        return self._weights.action if acts else 1.0

    def _collect_concepts(self, words: list[str], stems: list[str]) -> dict[int, QueryTerm]:
        found: dict[int, QueryTerm] = {}
        for heard in self._lexicon.match_query(stems):
            if heard.concept not in found:
                acts = self._lexicon.find_domain(heard.concept) is None
                weight = self._weights.concept * (self._weights.action if acts else 1.0)
                found[heard.concept] = QueryTerm(weight, " ".join(words[heard.start : heard.end]))
        return found

    def _collect_domains(self, concepts: dict[int, QueryTerm]) -> dict[str, float]:
        votes = Counter(filter(None, map(self._lexicon.find_domain, concepts)))
        total = votes.total()
        return {domain: self._weights.domain * vote / total for domain, vote in votes.items()}
