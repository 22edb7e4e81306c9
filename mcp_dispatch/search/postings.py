"""The inverted index: the tools of each word, concept and domain, with their weights."""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from mcp_dispatch.search.document import (
    DESCRIPTION,
    FIELDS,
    NAME,
    IndexedTool,
    SearchField,
    tokenize_fields,
)
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem
from mcp_dispatch.search.weights import SearchWeights

_DOMAIN_WEIGHT = 3.0
_MIN_DOMAIN_SHARE = 0.08
_MIN_SPELLING_CHARS = 3

Term = TypeVar("Term", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Posting:
    """The numbers of the tools that contain a term, and what it adds to the score of each."""

    rarity: float
    tools: "array[int]"
    impacts: "array[float]"


@dataclass(frozen=True, slots=True)
class InvertedIndex:
    """Postings by word, concept and domain, from exact to broad.

    `name_words` and `gist_words` lead back from a tool to the words of its name, and of its name
    and description.
    """

    words: dict[str, Posting]
    concepts: dict[int, Posting]
    domains: dict[str, Posting]
    spellings: dict[str, float]
    name_words: tuple[tuple[str, ...], ...]
    gist_words: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _FieldText:
    field: SearchField
    stems: list[str]
    concepts: Counter[int]


class _TermStrengths(defaultdict[Term, tuple["array[int]", "array[float]"]]):
    """The weight of each term in each tool, before the rarity of the terms is known."""

    def __init__(self) -> None:
        super().__init__(lambda: (array("I"), array("f")))

    def add(self, tool: int, strengths: dict[Term, float]) -> None:
        for term, strength in strengths.items():
            tools, weights = self[term]
            tools.append(tool)
            weights.append(strength)

    def build_postings(self, size: int, saturation: float) -> dict[Term, Posting]:
        return {
            term: _build_posting(size, tools, strengths, saturation)
            for term, (tools, strengths) in self.items()
        }


def build_inverted_index(
    entries: Sequence[IndexedTool], lexicon: Lexicon, weights: SearchWeights
) -> InvertedIndex:
    reader = _FieldReader(lexicon)
    texts = [reader.read(entry) for entry in entries]
    lengths = _compute_mean_lengths(texts)
    words, concepts, domains = _TermStrengths[str](), _TermStrengths[int](), _TermStrengths[str]()
    for tool, fields in enumerate(texts):
        word_strengths, concept_strengths = _compute_strengths(fields, lengths)
        words.add(tool, word_strengths)
        concepts.add(tool, concept_strengths)
    for tool, shares in enumerate(_compute_domains(entries, texts, lexicon, weights.server_share)):
        domains.add(tool, shares)
    size, saturation = len(entries), weights.saturation
    return InvertedIndex(
        words.build_postings(size, saturation),
        concepts.build_postings(size, saturation),
        domains.build_postings(size, saturation),
        reader.count_spellings(),
        tuple(_collect_stems(fields, NAME) for fields in texts),
        tuple(_collect_stems(fields, NAME, DESCRIPTION) for fields in texts),
    )


class _FieldReader:
    """Reads the fields of tools; caches stems while the index is built."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._stem = cache(stem)
        self._spellings: defaultdict[SearchField, Counter[str]] = defaultdict(Counter)

    def read(self, entry: IndexedTool) -> list[_FieldText]:
        return [self._read_field(field, words) for field, words in tokenize_fields(entry) if words]

    def count_spellings(self) -> dict[str, float]:
        """Return candidates for spelling correction with their weighted frequency."""
        likely: defaultdict[str, float] = defaultdict(float)
        for field, times in self._spellings.items():
            for word, count in times.items():
                if len(word) > _MIN_SPELLING_CHARS and word.isascii():
                    likely[word] += field.weight * count
        return dict(likely)

    def _read_field(self, field: SearchField, words: list[str]) -> _FieldText:
        self._spellings[field].update(words)
        stop_words = self._lexicon.stop_words
        concepts = Counter(self._lexicon.iter_tool_concepts(list(map(self._stem, words))))
        return _FieldText(field, [self._stem(w) for w in words if w not in stop_words], concepts)


def _collect_stems(fields: Iterable[_FieldText], *selected: SearchField) -> tuple[str, ...]:
    return tuple(dict.fromkeys(s for text in fields if text.field in selected for s in text.stems))


def _compute_mean_lengths(texts: Sequence[Iterable[_FieldText]]) -> dict[SearchField, float]:
    total = Counter(dict.fromkeys(FIELDS, 0))
    for fields in texts:
        for text in fields:
            total[text.field] += len(text.stems)
    return {field: max(1.0, length / max(1, len(texts))) for field, length in total.items()}


def _compute_strengths(
    fields: Iterable[_FieldText], mean_lengths: dict[SearchField, float]
) -> tuple[dict[str, float], dict[int, float]]:
    words: defaultdict[str, float] = defaultdict(float)
    concepts: defaultdict[int, float] = defaultdict(float)
    for text in fields:
        field = text.field
        length = len(text.stems) / mean_lengths[field]
        weight = field.weight / (1 - field.length_penalty + field.length_penalty * length)
        for word in text.stems:
            words[word] += weight
        for concept, times in text.concepts.items():
            concepts[concept] += weight * math.sqrt(times)
    return words, concepts


def _compute_domains(
    entries: Sequence[IndexedTool],
    texts: Sequence[Iterable[_FieldText]],
    lexicon: Lexicon,
    server_share: float,
) -> Iterable[dict[str, float]]:
    """Yield the shares of domains of each tool, mixed with those of its server.

    A tool named `search` has no domain by itself; the other tools of its server indicate one.
    """
    own = [_compute_domain_shares(fields, lexicon) for fields in texts]
    sizes = Counter(entry.server for entry in entries)
    by_server: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry, shares in zip(entries, own, strict=True):
        for domain, share in shares.items():
            by_server[entry.server][domain] += share / sizes[entry.server]
    for entry, shares in zip(entries, own, strict=True):
        server_shares = by_server[entry.server]
        mixed = {
            domain: (1 - server_share) * shares.get(domain, 0.0) + server_share * share
            for domain, share in server_shares.items()
        }
        yield {
            domain: _DOMAIN_WEIGHT * share
            for domain, share in mixed.items()
            if share > _MIN_DOMAIN_SHARE
        }


def _compute_domain_shares(fields: Iterable[_FieldText], lexicon: Lexicon) -> dict[str, float]:
    votes: defaultdict[str, float] = defaultdict(float)
    for text in fields:
        if not text.field.domain_weight:
            continue
        for concept, times in text.concepts.items():
            if domain := lexicon.find_domain(concept):
                votes[domain] += text.field.domain_weight * min(times, 2)
    total = sum(votes.values())
    return {domain: vote / total for domain, vote in votes.items()}


def _build_posting(
    size: int, tools: "array[int]", strengths: "array[float]", saturation: float
) -> Posting:
    rarity = math.log(1 + (size - len(tools) + 0.5) / (len(tools) + 0.5))
    top = rarity * (saturation + 1)
    impacts = array("f", [top * each / (each + saturation) for each in strengths])
    return Posting(rarity, tools, impacts)
