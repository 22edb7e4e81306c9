"""The search over tools: exact names first, then the best matches by words and concepts."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from mcp_dispatch.model.names import build_rule_name
from mcp_dispatch.search.document import IndexedTool, ToolHit, build_entry
from mcp_dispatch.search.explain import explain_match
from mcp_dispatch.search.postings import build_inverted_index
from mcp_dispatch.search.query import ToolSearchQuery, parse_query
from mcp_dispatch.search.query_terms import QueryInterpreter
from mcp_dispatch.search.ranking import ToolRanker
from mcp_dispatch.search.synonyms import Lexicon, load_standard_lexicon
from mcp_dispatch.search.tokenize import split_name, stem
from mcp_dispatch.search.weights import DEFAULT_WEIGHTS, SearchWeights

__all__ = ["IndexedTool", "ToolHit", "ToolIndex", "build_entry"]

_EXACT_NAME_SCORE = 1_000.0
_WHOLE_SERVER_SCORE = 900.0
_MIN_MENTION_CHARS = 3
_TOKEN = re.compile(r"[\w.-]+")
_COMPOUND_NAME = re.compile(r"[_.-]|[a-z][A-Z]")


class ToolIndex:
    """An immutable index; when the tools change, a new one is built."""

    def __init__(
        self,
        entries: Sequence[IndexedTool],
        weights: SearchWeights = DEFAULT_WEIGHTS,
        lexicon: Lexicon | None = None,
    ) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: (entry.name, entry.server)))
        self._lexicon = lexicon or load_standard_lexicon()
        postings = build_inverted_index(self.entries, self._lexicon, weights)
        servers = tuple(entry.server for entry in self.entries)
        self._ranking = ToolRanker(postings, servers, self._lexicon, weights)
        self._interpreter = QueryInterpreter(self._lexicon, postings.spellings, weights)
        self._by_name = _group_by_key(self.entries, _list_spellings)
        self._by_server = _group_by_key(self.entries, lambda entry: {entry.server.casefold()})
        self._by_mention = _group_by_key(
            self.entries, lambda entry: {_normalize_server_name(entry.server)}
        )

    def search(self, query: str, limit: int) -> list[ToolHit]:
        """Return the best `limit` tools for `query`, best first; see `parse_query` for its syntax."""
        parsed, limit = parse_query(query), max(limit, 0)
        if parsed.names:
            return self._find_exact(parsed.names)[:limit]
        candidates = self._select_candidates(parsed)
        if parsed.server and not parsed.text:
            return [self._build_server_hit(number) for number in candidates[:limit]]
        first = self._find_named_in_text(parsed.text, candidates)
        first = first or self._find_whole_server(parsed, candidates)
        ranked = self._rank(parsed.text, candidates, limit + len(first))
        others = (hit for number, hit in ranked if number not in first)
        return list(islice(chain(first.values(), others), limit))

    def find_by_name(self, name: str) -> list[IndexedTool]:
        """Return the tools with this exposed, rule or bare name, ignoring case."""
        return [self.entries[number] for number in self._by_name.get(name.casefold(), ())]

    def _select_candidates(self, query: ToolSearchQuery) -> Sequence[int]:
        candidates: Sequence[int] = range(len(self.entries))
        if query.server:
            candidates = self._find_server_tools(query.server.casefold())
        for word in query.required:
            candidates = [n for n in candidates if _matches_name(word.casefold(), self.entries[n])]
        return candidates

    def _find_server_tools(self, server: str) -> list[int]:
        if exact := self._by_server.get(server):
            return exact
        groups = (numbers for name, numbers in self._by_server.items() if name.startswith(server))
        return sorted(number for numbers in groups for number in numbers)

    def _find_exact(self, names: Sequence[str]) -> list[ToolHit]:
        numbers = (number for name in names for number in self._by_name.get(name.casefold(), ()))
        return [self._build_exact_hit(number) for number in dict.fromkeys(numbers)]

    def _find_named_in_text(self, text: str, candidates: Sequence[int]) -> dict[int, ToolHit]:
        """Return tools whose name is in the text. A plain word counts only if it is the whole text."""
        names = [text, *(token for token in _TOKEN.findall(text) if _COMPOUND_NAME.search(token))]
        found = (self._by_name.get(name.strip(".").casefold(), ()) for name in names)
        allowed = candidates if isinstance(candidates, range) else frozenset(candidates)
        return {n: self._build_exact_hit(n) for numbers in found for n in numbers if n in allowed}

    def _find_whole_server(
        self, query: ToolSearchQuery, candidates: Sequence[int]
    ) -> dict[int, ToolHit]:
        """Return the tools of a server if its name is the whole text of the query."""
        numbers = self._by_server.get(query.text.casefold(), ())
        return {
            number: self._build_server_hit(number) for number in numbers if number in candidates
        }

    def _rank(
        self, text: str, candidates: Sequence[int], limit: int
    ) -> Iterator[tuple[int, ToolHit]]:
        query = self._interpreter.analyze(text)
        mentioned = self._find_mentioned(query.raw_words)
        for number, score in self._ranking.rank(query, limit, candidates, mentioned):
            entry = self.entries[number]
            yield number, ToolHit(entry, score, explain_match(query, entry, self._lexicon))

    def _find_mentioned(self, words: Sequence[str]) -> set[int]:
        """Return the tools of servers that the words name, as in `desktop commander`."""
        spans = (
            "".join(words[start : start + length])
            for length in (1, 2, 3)
            for start in range(len(words))
        )
        return {number for span in spans for number in self._by_mention.get(span, ())}

    def _build_exact_hit(self, number: int) -> ToolHit:
        return ToolHit(self.entries[number], _EXACT_NAME_SCORE, ("exact name",))

    def _build_server_hit(self, number: int) -> ToolHit:
        entry = self.entries[number]
        return ToolHit(entry, _WHOLE_SERVER_SCORE, (f"tool of {entry.server}",))


def _group_by_key(
    entries: Sequence[IndexedTool], list_keys: Callable[[IndexedTool], set[str]]
) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        for key in list_keys(entry):
            numbers.setdefault(key, []).append(number)
    return numbers


def _normalize_server_name(server: str) -> str:
    """Return the name of a server as a sentence would contain it: `time` for `mcp-server-time`."""
    words = [word for word in split_name(server) if word not in ("mcp", "server")]
    return "".join(words) if len("".join(words)) >= _MIN_MENTION_CHARS else ""


def _list_spellings(entry: IndexedTool) -> set[str]:
    names = (entry.name, entry.bare_name, f"{entry.server}__{entry.bare_name}", *entry.aliases)
    return {name.casefold() for name in (*names, build_rule_name(entry.server, entry.bare_name))}


def _matches_name(word: str, entry: IndexedTool) -> bool:
    full = f"{entry.server}__{entry.bare_name}"
    return word in full.casefold() or stem(word) in map(stem, split_name(full))
