"""Explains why a tool was found."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_dispatch.search.document import IndexedTool, tokenize_fields
from mcp_dispatch.search.query_terms import WeightedQuery
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem

_MAX_REASONS = 8


@dataclass(slots=True)
class _Reason:
    """Words of the query, the words of the tool that match them, and the fields they are in."""

    query_words: str
    tool_words: str
    labels: dict[str, None] = dataclasses.field(default_factory=lambda: dict[str, None]())

    def __str__(self) -> str:
        where = ", ".join(self.labels)
        same = self.query_words == self.tool_words
        return (
            f"{self.query_words} in {where}"
            if same
            else f"{self.query_words} as {self.tool_words} in {where}"
        )


def explain_match(query: WeightedQuery, entry: IndexedTool, lexicon: Lexicon) -> tuple[str, ...]:
    """Return reasons such as `delete in name` or `folder as directory in name, description`.

    The most important field comes first. A tool that shares no word or concept with the query was
    found by its domain.
    """
    found: dict[tuple[str, ...], _Reason] = {}
    about: dict[str, None] = {}
    for field, words in tokenize_fields(entry):
        stems = list(map(stem, words))
        for key, query_words, tool_words in _find_matches(query, words, stems, lexicon):
            new = _Reason(query_words, tool_words)
            reason = found.setdefault((query_words, *key), new)
            reason.labels[field.label] = None
        domains = (lexicon.find_domain(match.concept) for match in lexicon.match_tool_text(stems))
        about |= dict.fromkeys(d for d in domains if d in query.domains)
    if found:
        return tuple(map(str, found.values()))[:_MAX_REASONS]
    return tuple(f"about {domain}" for domain in about) or (f"beside tools of {entry.server}",)


def _find_matches(
    query: WeightedQuery, words: Sequence[str], stems: Sequence[str], lexicon: Lexicon
) -> Iterator[tuple[Sequence[str], str, str]]:
    """Yield the matching stems, the words of the query and the words of the text."""
    for stemmed in stems:
        if term := query.words.get(stemmed):
            yield (stemmed,), term.query_words, term.query_words
    for match in lexicon.match_tool_text(stems):
        span = stems[match.start : match.end]
        term = query.concepts.get(match.concept)
        if term and not any(stemmed in query.words for stemmed in span):
            yield span, term.query_words, " ".join(words[match.start : match.end])
