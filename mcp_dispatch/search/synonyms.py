"""Notions behind words: what a tool and a question have in common when their words differ."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcp_dispatch.search.tokenize import split_name, stem

_STOP_WORDS_HEADING = "\n[stop_words]\n"


def load_vocabulary() -> tuple[str, str]:
    """Return the concepts and the stop words of `synonyms.txt`, without comments."""
    text = Path(__file__).with_name("synonyms.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    vocabulary, _, stop_words = "\n".join(lines).partition(_STOP_WORDS_HEADING)
    return vocabulary, stop_words


_NO_DOMAIN = "actions"
_MAX_GAP_WORDS = 2

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConceptMatch:
    """A notion, and the span of words that stands for it."""

    concept: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _StemMeanings:
    """What a stem may open: notions by itself, and phrases that begin with it."""

    concepts: tuple[int, ...]
    hinted_concepts: tuple[int, ...]
    phrases: tuple[tuple[Phrase, int], ...]
    hinted_phrases: tuple[tuple[Phrase, int], ...]


class Lexicon:
    """The vocabulary, ready to be looked up."""

    def __init__(self, vocabulary: str, stop_words: frozenset[str]) -> None:
        lines = _parse_concepts(vocabulary)
        self._domains = tuple(None if line.domain == _NO_DOMAIN else line.domain for line in lines)
        spoken = _group_by_first_word(line.phrases for line in lines)
        hinted = _group_by_first_word(line.hinted_phrases for line in lines)
        self._meanings = {
            first: _build_meanings(spoken.get(first, []), hinted.get(first, []))
            for first in spoken.keys() | hinted.keys()
        }
        self.stop_words = stop_words
        self._stop_stems = frozenset(map(stem, stop_words))

    def find_domain(self, concept: int) -> str | None:
        """The domain of a notion; None for an action, which belongs everywhere."""
        return self._domains[concept]

    def contains_stem(self, stemmed: str) -> bool:
        return stemmed in self._meanings

    def find_concepts(self, stemmed: str) -> tuple[int, ...]:
        """The notions that this one word stands for in a tool."""
        known = self._meanings.get(stemmed)
        return known.concepts if known else ()

    def iter_tool_concepts(self, stems: Sequence[str]) -> Iterator[int]:
        """The notions of a tool's text, each as often as it comes up."""
        meanings = self._meanings
        for at, stemmed in enumerate(stems):
            known = meanings.get(stemmed)
            if known is None:
                continue
            yield from known.concepts
            for phrase, notion in known.phrases:
                if self._find_phrase_end(stems, at, phrase):
                    yield notion

    def match_query(self, stems: Sequence[str]) -> Iterator[ConceptMatch]:
        """The notions of a question, hints included, with the words that raised them."""
        for at, stemmed in enumerate(stems):
            known = self._meanings.get(stemmed)
            if known is None:
                continue
            if stemmed not in self._stop_stems:
                yield from (
                    ConceptMatch(notion, at, at + 1)
                    for notion in (*known.concepts, *known.hinted_concepts)
                )
            yield from self._match_phrases(stems, at, (*known.phrases, *known.hinted_phrases))

    def match_tool_text(self, stems: Sequence[str]) -> Iterator[ConceptMatch]:
        """The notions of a tool's text, with the words that stand for them."""
        for at, stemmed in enumerate(stems):
            if known := self._meanings.get(stemmed):
                yield from (ConceptMatch(notion, at, at + 1) for notion in known.concepts)
                yield from self._match_phrases(stems, at, known.phrases)

    def _match_phrases(
        self, stems: Sequence[str], start: int, phrases: Iterable[tuple[Phrase, int]]
    ) -> Iterator[ConceptMatch]:
        for phrase, notion in phrases:
            if end := self._find_phrase_end(stems, start, phrase):
                yield ConceptMatch(notion, start, end)

    def _find_phrase_end(self, stems: Sequence[str], start: int, phrase: Phrase) -> int:
        """Where the phrase that begins at `at` ends, else 0. `read the file` is `read file`."""
        end = start + 1
        for part in phrase[1:]:
            gap = end + _MAX_GAP_WORDS
            while end < len(stems) and end < gap and stems[end] != part:
                if stems[end] not in self._stop_stems:
                    return 0
                end += 1
            if end >= len(stems) or stems[end] != part:
                return 0
            end += 1
        return end


@dataclass(frozen=True, slots=True)
class _Concept:
    domain: str
    phrases: tuple[Phrase, ...]
    hinted_phrases: tuple[Phrase, ...]


@cache
def load_standard_lexicon() -> Lexicon:
    vocabulary, stop_words = load_vocabulary()
    return Lexicon(vocabulary, frozenset(stop_words.split()))


def _parse_concepts(vocabulary: str) -> list[_Concept]:
    notions: list[_Concept] = []
    domain = _NO_DOMAIN
    for line in filter(None, map(str.strip, vocabulary.splitlines())):
        if line.startswith("["):
            domain = line.strip("[]")
            continue
        spoken, _, hinted = line.partition("|")
        notions.append(_Concept(domain, _parse_phrases(spoken), _parse_phrases(hinted)))
    return notions


def _parse_phrases(words: str) -> tuple[Phrase, ...]:
    return tuple(tuple(map(stem, split_name(phrase))) for phrase in words.split())


def _group_by_first_word(
    phrases: Iterable[tuple[Phrase, ...]],
) -> dict[str, list[tuple[Phrase, int]]]:
    found: dict[str, list[tuple[Phrase, int]]] = {}
    for notion, spellings in enumerate(phrases):
        for phrase in dict.fromkeys(spellings):
            found.setdefault(phrase[0], []).append((phrase, notion))
    return found


def _build_meanings(
    spoken: list[tuple[Phrase, int]], hinted: list[tuple[Phrase, int]]
) -> _StemMeanings:
    alone = tuple(dict.fromkeys(notion for phrase, notion in spoken if len(phrase) == 1))
    hints = dict.fromkeys(notion for phrase, notion in hinted if len(phrase) == 1)
    return _StemMeanings(
        alone,
        tuple(notion for notion in hints if notion not in alone),
        tuple(each for each in spoken if len(each[0]) > 1),
        tuple(each for each in hinted if len(each[0]) > 1),
    )
