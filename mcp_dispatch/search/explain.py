"""Why a tool was found, in words a person can read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcp_dispatch.search.document import IndexedTool, tokenize_fields
from mcp_dispatch.search.query_terms import WeightedQuery
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem

_MAX_REASONS = 8


@dataclass(slots=True)
class _Reason:
    """A part of the question, the words that answer it, and where they stand."""

    query_words: str
    tool_words: str
    labels: dict[str, None] = field(default_factory=lambda: dict[str, None]())

    def __str__(self) -> str:
        where = ", ".join(self.labels)
        same = self.query_words == self.tool_words
        return (
            f"{self.query_words} in {where}"
            if same
            else f"{self.query_words} as {self.tool_words} in {where}"
        )


def explain_match(query: WeightedQuery, entry: IndexedTool, lexicon: Lexicon) -> tuple[str, ...]:
    """`delete in name`, `folder as directory in name, description`: the best placed first. A tool
    that shares no word or notion is there for what it is about."""
    found: dict[tuple[str, ...], _Reason] = {}
    about: dict[str, None] = {}
    for place, words in tokenize_fields(entry):
        stems = list(map(stem, words))
        for key, said, words_found in _find_matches(query, words, stems, lexicon):
            reason = found.setdefault((said, *key), _Reason(said, words_found))
            reason.labels[place.label] = None
        domains = (lexicon.find_domain(heard.concept) for heard in lexicon.match_tool_text(stems))
        about |= dict.fromkeys(d for d in domains if d in query.domains)
    if found:
        return tuple(map(str, found.values()))[:_MAX_REASONS]
    return tuple(f"about {domain}" for domain in about) or (f"beside tools of {entry.server}",)


def _find_matches(
    query: WeightedQuery, words: Sequence[str], stems: Sequence[str], lexicon: Lexicon
) -> Iterator[tuple[Sequence[str], str, str]]:
    """What of the text answers what of the question: stems, words asked, words found."""
    for stemmed in stems:
        if asked := query.words.get(stemmed):
            yield (stemmed,), asked.query_words, asked.query_words
    for heard in lexicon.match_tool_text(stems):
        span = stems[heard.start : heard.end]
        asked = query.concepts.get(heard.concept)
        if asked and not any(stemmed in query.words for stemmed in span):
            yield span, asked.query_words, " ".join(words[heard.start : heard.end])
