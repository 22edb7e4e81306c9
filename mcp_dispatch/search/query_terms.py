"""Turns the text of a query into weighted words, concepts and domains."""

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
    """Return the most used known word that is one edit away, otherwise the word itself.

    An edit swaps, adds, replaces or removes a letter. The first letter is assumed to be right.
    """
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
    """A search term: its weight, and the words of the query that it comes from."""

    weight: float
    query_words: str


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """The words of a query, and the terms to search for.

    `words` are keyed by stem and exclude stop words; `concepts` are the concepts of the words, and
    `domains` the domains of the concepts.
    """

    raw_words: tuple[str, ...]
    words: dict[str, QueryTerm]
    concepts: dict[int, QueryTerm]
    domains: dict[str, float]


class QueryInterpreter:
    """Turns text into a weighted query.

    `spellings` are the words that tools use. An unknown word is corrected to one of them, and two
    adjacent words that are one word there (`file system`) count as that word too.
    """

    def __init__(
        self, lexicon: Lexicon, spellings: Mapping[str, float], weights: SearchWeights
    ) -> None:
        self._lexicon = lexicon
        self._spellings = spellings
        self._weights = weights

    def analyze(self, text: str) -> WeightedQuery:
        raw_words = split_prose(replace_pasted_text(text))[:_MAX_WORDS]
        words = list(self._fix_spellings(raw_words))
        stems = list(map(stem, words))
        concepts = self._collect_concepts(words, stems)
        return WeightedQuery(
            raw_words=tuple(raw_words),
            words=self._collect_words(words, stems),
            concepts=concepts,
            domains=self._collect_domains(concepts),
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
        first_words: dict[str, str] = {}
        times: Counter[str] = Counter()
        for word, stemmed in zip(words, stems, strict=True):
            if word not in self._lexicon.stop_words:
                first_words.setdefault(stemmed, word)
                times[stemmed] += 1
        terms = {
            stemmed: QueryTerm(self._choose_weight(stemmed) * math.sqrt(times[stemmed]), word)
            for stemmed, word in first_words.items()
        }
        for first, second in pairwise(words):
            if first + second in self._spellings:
                compound = QueryTerm(self._weights.compound, f"{first} {second}")
                terms.setdefault(stem(first + second), compound)
        return terms

    def _choose_weight(self, stemmed: str) -> float:
        concepts = self._lexicon.find_concepts(stemmed)
        is_action = any(self._lexicon.find_domain(concept) is None for concept in concepts)
        return self._weights.action if is_action else 1.0

    def _collect_concepts(self, words: list[str], stems: list[str]) -> dict[int, QueryTerm]:
        found: dict[int, QueryTerm] = {}
        for match in self._lexicon.match_query(stems):
            if match.concept not in found:
                is_action = self._lexicon.find_domain(match.concept) is None
                weight = self._weights.concept * (self._weights.action if is_action else 1.0)
                found[match.concept] = QueryTerm(weight, " ".join(words[match.start : match.end]))
        return found

    def _collect_domains(self, concepts: dict[int, QueryTerm]) -> dict[str, float]:
        votes = Counter(filter(None, map(self._lexicon.find_domain, concepts)))
        total = votes.total()
        return {domain: self._weights.domain * vote / total for domain, vote in votes.items()}
