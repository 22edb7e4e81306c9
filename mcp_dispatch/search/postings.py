"""Which tools speak of what, and how strongly: the inverted index."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from mcp_dispatch.search.document import DESCRIPTION, FIELDS, NAME, Entry, Field, words_by_field
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem
from mcp_dispatch.search.weights import Weights

_DOMAIN_WEIGHT = 3.0
_LEAST_SHARE = 0.08
_SHORTEST_SPELLING = 3

Term = TypeVar("Term", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Posting:
    """The tools of one term, by number, with what it adds to the score of each."""

    rarity: float
    tools: "array[int]"
    impacts: "array[float]"


@dataclass(frozen=True, slots=True)
class Postings:
    """Three ways to find a tool, from exact to broad: its words, its notions, its domains; and
    back from a tool to the words of its name and of its gist (name and description)."""

    words: dict[str, Posting]
    notions: dict[int, Posting]
    domains: dict[str, Posting]
    spellings: dict[str, float]
    names: tuple[tuple[str, ...], ...]
    gists: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Text:
    field: Field
    stems: list[str]
    notions: Counter[int]


class _Strengths(defaultdict[Term, tuple["array[int]", "array[float]"]]):
    """How strongly each tool speaks of each term, before rarity is known."""

    def __init__(self) -> None:
        super().__init__(lambda: (array("I"), array("f")))

    def add(self, tool: int, strengths: dict[Term, float]) -> None:
        for term, strength in strengths.items():
            tools, weights = self[term]
            tools.append(tool)
            weights.append(strength)

    def postings(self, size: int, saturation: float) -> dict[Term, Posting]:
        return {
            term: _posting(size, tools, strengths, saturation)
            for term, (tools, strengths) in self.items()
        }


def gather(entries: Sequence[Entry], lexicon: Lexicon, weights: Weights) -> Postings:
    reader = _Reader(lexicon)
    texts = [reader.read(entry) for entry in entries]
    lengths = _mean_lengths(texts)
    words, notions, domains = _Strengths[str](), _Strengths[int](), _Strengths[str]()
    for tool, fields in enumerate(texts):
        said, meant = _strengths(fields, lengths)
        words.add(tool, said)
        notions.add(tool, meant)
    for tool, shares in enumerate(_domains(entries, texts, lexicon, weights.from_server)):
        domains.add(tool, shares)
    size, saturation = len(entries), weights.saturation
    return Postings(
        words.postings(size, saturation),
        notions.postings(size, saturation),
        domains.postings(size, saturation),
        reader.spellings(),
        tuple(_distinct(fields, NAME) for fields in texts),
        tuple(_distinct(fields, NAME, DESCRIPTION) for fields in texts),
    )


class _Reader:
    """Reads the fields of tools; remembers stems for as long as the index is being built."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._stem = cache(stem)
        self._spellings: defaultdict[Field, Counter[str]] = defaultdict(Counter)

    def read(self, entry: Entry) -> list[_Text]:
        return [self._text(field, words) for field, words in words_by_field(entry) if words]

    def spellings(self) -> dict[str, float]:
        """Words that a misspelt one may have meant, with how often they stand where it counts."""
        likely: defaultdict[str, float] = defaultdict(float)
        for field, times in self._spellings.items():
            for word, count in times.items():
                if len(word) > _SHORTEST_SPELLING and word.isascii():
                    likely[word] += field.weight * count
        return dict(likely)

    def _text(self, field: Field, words: list[str]) -> _Text:
        self._spellings[field].update(words)
        stop_words = self._lexicon.stop_words
        notions = Counter(self._lexicon.in_tool(list(map(self._stem, words))))
        return _Text(field, [self._stem(w) for w in words if w not in stop_words], notions)


def _distinct(fields: Iterable[_Text], *of: Field) -> tuple[str, ...]:
    return tuple(dict.fromkeys(s for text in fields if text.field in of for s in text.stems))


def _mean_lengths(texts: Sequence[Iterable[_Text]]) -> dict[Field, float]:
    total = Counter(dict.fromkeys(FIELDS, 0))
    for fields in texts:
        for text in fields:
            total[text.field] += len(text.stems)
    return {field: max(1.0, length / max(1, len(texts))) for field, length in total.items()}


def _strengths(
    fields: Iterable[_Text], lengths: dict[Field, float]
) -> tuple[dict[str, float], dict[int, float]]:
    words: defaultdict[str, float] = defaultdict(float)
    notions: defaultdict[int, float] = defaultdict(float)
    for text in fields:
        field = text.field
        length = len(text.stems) / lengths[field]
        weight = field.weight / (1 - field.evenness + field.evenness * length)
        for word in text.stems:
            words[word] += weight
        for notion, times in text.notions.items():
            notions[notion] += weight * math.sqrt(times)
    return words, notions


def _domains(
    entries: Sequence[Entry],
    texts: Sequence[Iterable[_Text]],
    lexicon: Lexicon,
    from_server: float,
) -> Iterable[dict[str, float]]:
    """What each tool is about, in shares, leaning on what its server is about: a tool named
    `search` says little, its neighbours say what is searched."""
    own = [_domain_shares(fields, lexicon) for fields in texts]
    sizes = Counter(entry.server for entry in entries)
    of_server: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry, shares in zip(entries, own, strict=True):
        for domain, share in shares.items():
            of_server[entry.server][domain] += share / sizes[entry.server]
    for entry, shares in zip(entries, own, strict=True):
        around = of_server[entry.server]
        mixed = {
            domain: (1 - from_server) * shares.get(domain, 0.0) + from_server * share
            for domain, share in around.items()
        }
        yield {
            domain: _DOMAIN_WEIGHT * share
            for domain, share in mixed.items()
            if share > _LEAST_SHARE
        }


def _domain_shares(fields: Iterable[_Text], lexicon: Lexicon) -> dict[str, float]:
    votes: defaultdict[str, float] = defaultdict(float)
    for text in fields:
        if not text.field.aboutness:
            continue
        for notion, times in text.notions.items():
            if domain := lexicon.domain(notion):
                votes[domain] += text.field.aboutness * min(times, 2)
    total = sum(votes.values())
    return {domain: vote / total for domain, vote in votes.items()}


def _posting(
    size: int, tools: "array[int]", strengths: "array[float]", saturation: float
) -> Posting:
    rarity = math.log(1 + (size - len(tools) + 0.5) / (len(tools) + 0.5))
    top = rarity * (saturation + 1)
    impacts = array("f", [top * each / (each + saturation) for each in strengths])
    return Posting(rarity, tools, impacts)
