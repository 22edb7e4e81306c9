"""Maps words and phrases to concepts, so that a query finds a tool that uses other words."""

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
    """A concept, and the span of words that expresses it; `end` is exclusive."""

    concept: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _StemMeanings:
    """The concepts of a stem alone, and the phrases that begin with it.

    Hinted concepts count in a query but not in a tool.
    """

    concepts: tuple[int, ...]
    hinted_concepts: tuple[int, ...]
    phrases: tuple[tuple[Phrase, int], ...]
    hinted_phrases: tuple[tuple[Phrase, int], ...]


class Lexicon:
    """The vocabulary, indexed by the first stem of each phrase."""

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
        """Return the domain of a concept; None for an action, which belongs to no domain."""
        return self._domains[concept]

    def contains_stem(self, stemmed: str) -> bool:
        return stemmed in self._meanings

    def find_concepts(self, stemmed: str) -> tuple[int, ...]:
        """Return the concepts that this single word has in a tool."""
        known = self._meanings.get(stemmed)
        return known.concepts if known else ()

    def iter_tool_concepts(self, stems: Sequence[str]) -> Iterator[int]:
        """Yield the concepts of a tool's text, once for each occurrence."""
        meanings = self._meanings
        for start, stemmed in enumerate(stems):
            known = meanings.get(stemmed)
            if known is None:
                continue
            yield from known.concepts
            for phrase, concept in known.phrases:
                if self._find_phrase_end(stems, start, phrase):
                    yield concept

    def match_query(self, stems: Sequence[str]) -> Iterator[ConceptMatch]:
        """Yield the concepts of a query, hinted ones included, with their words."""
        for start, stemmed in enumerate(stems):
            known = self._meanings.get(stemmed)
            if known is None:
                continue
            if stemmed not in self._stop_stems:
                yield from (
                    ConceptMatch(concept, start, start + 1)
                    for concept in (*known.concepts, *known.hinted_concepts)
                )
            yield from self._match_phrases(stems, start, (*known.phrases, *known.hinted_phrases))

    def match_tool_text(self, stems: Sequence[str]) -> Iterator[ConceptMatch]:
        """Yield the concepts of a tool's text with their words."""
        for start, stemmed in enumerate(stems):
            if known := self._meanings.get(stemmed):
                yield from (ConceptMatch(concept, start, start + 1) for concept in known.concepts)
                yield from self._match_phrases(stems, start, known.phrases)

    def _match_phrases(
        self, stems: Sequence[str], start: int, phrases: Iterable[tuple[Phrase, int]]
    ) -> Iterator[ConceptMatch]:
        for phrase, concept in phrases:
            if end := self._find_phrase_end(stems, start, phrase):
                yield ConceptMatch(concept, start, end)

    def _find_phrase_end(self, stems: Sequence[str], start: int, phrase: Phrase) -> int:
        """Return the end of the phrase at `start`, or 0 if it does not match.

        Stop words in between are skipped: `read the file` matches `read file`.
        """
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
    concepts: list[_Concept] = []
    domain = _NO_DOMAIN
    for line in filter(None, map(str.strip, vocabulary.splitlines())):
        if line.startswith("["):
            domain = line.strip("[]")
            continue
        spoken, _, hinted = line.partition("|")
        concepts.append(_Concept(domain, _parse_phrases(spoken), _parse_phrases(hinted)))
    return concepts


def _parse_phrases(words: str) -> tuple[Phrase, ...]:
    return tuple(tuple(map(stem, split_name(phrase))) for phrase in words.split())


def _group_by_first_word(
    phrases: Iterable[tuple[Phrase, ...]],
) -> dict[str, list[tuple[Phrase, int]]]:
    found: dict[str, list[tuple[Phrase, int]]] = {}
    for concept, spellings in enumerate(phrases):
        for phrase in dict.fromkeys(spellings):
            found.setdefault(phrase[0], []).append((phrase, concept))
    return found


def _build_meanings(
    spoken: list[tuple[Phrase, int]], hinted: list[tuple[Phrase, int]]
) -> _StemMeanings:
    alone = tuple(dict.fromkeys(concept for phrase, concept in spoken if len(phrase) == 1))
    hints = dict.fromkeys(concept for phrase, concept in hinted if len(phrase) == 1)
    return _StemMeanings(
        alone,
        tuple(concept for concept in hints if concept not in alone),
        tuple(each for each in spoken if len(each[0]) > 1),
        tuple(each for each in hinted if len(each[0]) > 1),
    )
