"""Why a tool was found, in words a person can read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcp_dispatch.search.document import Entry, words_by_field
from mcp_dispatch.search.query_terms import Question
from mcp_dispatch.search.synonyms import Lexicon
from mcp_dispatch.search.tokenize import stem

_MOST_REASONS = 8


@dataclass(slots=True)
class _Reason:
    """A part of the question, the words that answer it, and where they stand."""

    said: str
    found: str
    labels: dict[str, None] = field(default_factory=lambda: dict[str, None]())

    def __str__(self) -> str:
        where = ", ".join(self.labels)
        same = self.said == self.found
        return f"{self.said} in {where}" if same else f"{self.said} as {self.found} in {where}"


def reasons(question: Question, entry: Entry, lexicon: Lexicon) -> tuple[str, ...]:
    """`delete in name`, `folder as directory in name, description`: the best placed first. A tool
    that shares no word or notion is there for what it is about."""
    found: dict[tuple[str, ...], _Reason] = {}
    about: dict[str, None] = {}
    for place, words in words_by_field(entry):
        stems = list(map(stem, words))
        for key, said, words_found in _matches(question, words, stems, lexicon):
            reason = found.setdefault((said, *key), _Reason(said, words_found))
            reason.labels[place.label] = None
        domains = (lexicon.domain(heard.notion) for heard in lexicon.in_answer(stems))
        about |= dict.fromkeys(d for d in domains if d in question.domains)
    if found:
        return tuple(map(str, found.values()))[:_MOST_REASONS]
    return tuple(f"about {domain}" for domain in about) or (f"beside tools of {entry.server}",)


def _matches(
    question: Question, words: Sequence[str], stems: Sequence[str], lexicon: Lexicon
) -> Iterator[tuple[Sequence[str], str, str]]:
    """What of the text answers what of the question: stems, words asked, words found."""
    for stemmed in stems:
        if asked := question.words.get(stemmed):
            yield (stemmed,), asked.said, asked.said
    for heard in lexicon.in_answer(stems):
        span = stems[heard.start : heard.end]
        asked = question.notions.get(heard.notion)
        if asked and not any(stemmed in question.words for stemmed in span):
            yield span, asked.said, " ".join(words[heard.start : heard.end])
