"""Notions behind words: what a tool and a question have in common when their words differ."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mcp_dispatch.search.tokenize import stem, words_of_name

_STOP_WORDS_HEADING = "\n[stop_words]\n"


def load_vocabulary() -> tuple[str, str]:
    """Return the concepts and the stop words of `synonyms.txt`, without comments."""
    text = Path(__file__).with_name("synonyms.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    vocabulary, _, stop_words = "\n".join(lines).partition(_STOP_WORDS_HEADING)
    return vocabulary, stop_words


_NO_DOMAIN = "actions"
_LONGEST_GAP = 2

Phrase = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """A notion, and the span of words that stands for it."""

    notion: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Meanings:
    """What a stem may open: notions by itself, and phrases that begin with it."""

    spoken: tuple[int, ...]
    hinted: tuple[int, ...]
    phrases: tuple[tuple[Phrase, int], ...]
    hinted_phrases: tuple[tuple[Phrase, int], ...]


class Lexicon:
    """The vocabulary, ready to be looked up."""

    def __init__(self, vocabulary: str, stop_words: frozenset[str]) -> None:
        lines = _notions(vocabulary)
        self._domains = tuple(None if line.domain == _NO_DOMAIN else line.domain for line in lines)
        spoken = _by_first_word(line.spoken for line in lines)
        hinted = _by_first_word(line.hinted for line in lines)
        self._meanings = {
            first: _meanings(spoken.get(first, []), hinted.get(first, []))
            for first in spoken.keys() | hinted.keys()
        }
        self.stop_words = stop_words
        self._stop_stems = frozenset(map(stem, stop_words))

    def domain(self, notion: int) -> str | None:
        """The domain of a notion; None for an action, which belongs everywhere."""
        return self._domains[notion]

    def knows(self, stemmed: str) -> bool:
        return stemmed in self._meanings

    def spoken_by(self, stemmed: str) -> tuple[int, ...]:
        """The notions that this one word stands for in a tool."""
        known = self._meanings.get(stemmed)
        return known.spoken if known else ()

    def in_tool(self, stems: Sequence[str]) -> Iterator[int]:
        """The notions of a tool's text, each as often as it comes up."""
        meanings = self._meanings
        for at, stemmed in enumerate(stems):
            known = meanings.get(stemmed)
            if known is None:
                continue
            yield from known.spoken
            for phrase, notion in known.phrases:
                if self._end(stems, at, phrase):
                    yield notion

    def in_question(self, stems: Sequence[str]) -> Iterator[Heard]:
        """The notions of a question, hints included, with the words that raised them."""
        for at, stemmed in enumerate(stems):
            known = self._meanings.get(stemmed)
            if known is None:
                continue
            if stemmed not in self._stop_stems:
                yield from (Heard(notion, at, at + 1) for notion in (*known.spoken, *known.hinted))
            yield from self._phrases(stems, at, (*known.phrases, *known.hinted_phrases))

    def in_answer(self, stems: Sequence[str]) -> Iterator[Heard]:
        """The notions of a tool's text, with the words that stand for them."""
        for at, stemmed in enumerate(stems):
            if known := self._meanings.get(stemmed):
                yield from (Heard(notion, at, at + 1) for notion in known.spoken)
                yield from self._phrases(stems, at, known.phrases)

    def _phrases(
        self, stems: Sequence[str], at: int, phrases: Iterable[tuple[Phrase, int]]
    ) -> Iterator[Heard]:
        for phrase, notion in phrases:
            if end := self._end(stems, at, phrase):
                yield Heard(notion, at, end)

    def _end(self, stems: Sequence[str], at: int, phrase: Phrase) -> int:
        """Where the phrase that begins at `at` ends, else 0. `read the file` is `read file`."""
        end = at + 1
        for part in phrase[1:]:
            gap = end + _LONGEST_GAP
            while end < len(stems) and end < gap and stems[end] != part:
                if stems[end] not in self._stop_stems:
                    return 0
                end += 1
            if end >= len(stems) or stems[end] != part:
                return 0
            end += 1
        return end


@dataclass(frozen=True, slots=True)
class _Notion:
    domain: str
    spoken: tuple[Phrase, ...]
    hinted: tuple[Phrase, ...]


@cache
def standard_lexicon() -> Lexicon:
    vocabulary, stop_words = load_vocabulary()
    return Lexicon(vocabulary, frozenset(stop_words.split()))


def _notions(vocabulary: str) -> list[_Notion]:
    notions: list[_Notion] = []
    domain = _NO_DOMAIN
    for line in filter(None, map(str.strip, vocabulary.splitlines())):
        if line.startswith("["):
            domain = line.strip("[]")
            continue
        spoken, _, hinted = line.partition("|")
        notions.append(_Notion(domain, _phrases(spoken), _phrases(hinted)))
    return notions


def _phrases(words: str) -> tuple[Phrase, ...]:
    return tuple(tuple(map(stem, words_of_name(phrase))) for phrase in words.split())


def _by_first_word(phrases: Iterable[tuple[Phrase, ...]]) -> dict[str, list[tuple[Phrase, int]]]:
    found: dict[str, list[tuple[Phrase, int]]] = {}
    for notion, spellings in enumerate(phrases):
        for phrase in dict.fromkeys(spellings):
            found.setdefault(phrase[0], []).append((phrase, notion))
    return found


def _meanings(spoken: list[tuple[Phrase, int]], hinted: list[tuple[Phrase, int]]) -> _Meanings:
    alone = tuple(dict.fromkeys(notion for phrase, notion in spoken if len(phrase) == 1))
    hints = dict.fromkeys(notion for phrase, notion in hinted if len(phrase) == 1)
    return _Meanings(
        alone,
        tuple(notion for notion in hints if notion not in alone),
        tuple(each for each in spoken if len(each[0]) > 1),
        tuple(each for each in hinted if len(each[0]) > 1),
    )
