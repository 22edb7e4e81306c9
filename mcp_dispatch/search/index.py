"""The search over tools: exact names first, then the best fitting by words and notions."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from mcp_dispatch.model.names import rule_name
from mcp_dispatch.search.document import Entry, Hit, entry_of
from mcp_dispatch.search.explain import reasons
from mcp_dispatch.search.postings import gather
from mcp_dispatch.search.query import Query, parse
from mcp_dispatch.search.query_terms import Interpreter
from mcp_dispatch.search.ranking import Ranking
from mcp_dispatch.search.synonyms import Lexicon, standard_lexicon
from mcp_dispatch.search.tokenize import stem, words_of_name
from mcp_dispatch.search.weights import STANDARD, Weights

__all__ = ["Entry", "Hit", "ToolIndex", "entry_of"]

_EXACT = 1_000.0
_WHOLE_SERVER = 900.0
_SHORTEST_MENTION = 3
_TOKEN = re.compile(r"[\w.-]+")
_COMPOSED = re.compile(r"[_.-]|[a-z][A-Z]")


class ToolIndex:
    """An immutable index: a change of the tools makes a new one."""

    def __init__(
        self,
        entries: Sequence[Entry],
        weights: Weights = STANDARD,
        lexicon: Lexicon | None = None,
    ) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: (entry.name, entry.server)))
        self._lexicon = lexicon or standard_lexicon()
        postings = gather(self.entries, self._lexicon, weights)
        servers = tuple(entry.server for entry in self.entries)
        self._ranking = Ranking(postings, servers, self._lexicon, weights)
        self._interpreter = Interpreter(self._lexicon, postings.spellings, weights)
        self._by_name = _numbers(self.entries, _spellings)
        self._by_server = _numbers(self.entries, lambda entry: {entry.server.casefold()})
        self._by_mention = _numbers(self.entries, lambda entry: {_mention(entry.server)})

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best `limit` tools for `query` (`parse` tells its forms), best first."""
        asked, limit = parse(query), max(limit, 0)
        if asked.names:
            return self._selected(asked.names)[:limit]
        among = self._among(asked)
        if asked.server and not asked.text:
            return [self._of_server(number) for number in among[:limit]]
        first = self._pasted(asked.text, among) or self._whole_server(asked, among)
        ranked = self._ranked(asked.text, among, limit + len(first))
        others = (hit for number, hit in ranked if number not in first)
        return list(islice(chain(first.values(), others), limit))

    def named(self, name: str) -> list[Entry]:
        """The tools that go by this name: exposed, of the rules, or bare, in any case."""
        return [self.entries[number] for number in self._by_name.get(name.casefold(), ())]

    def _among(self, asked: Query) -> Sequence[int]:
        among: Sequence[int] = range(len(self.entries))
        if asked.server:
            among = self._of_servers(asked.server.casefold())
        for word in asked.required:
            among = [n for n in among if _in_name(word.casefold(), self.entries[n])]
        return among

    def _of_servers(self, server: str) -> list[int]:
        if exact := self._by_server.get(server):
            return exact
        begun = (numbers for name, numbers in self._by_server.items() if name.startswith(server))
        return sorted(number for numbers in begun for number in numbers)

    def _selected(self, names: Sequence[str]) -> list[Hit]:
        numbers = (number for name in names for number in self._by_name.get(name.casefold(), ()))
        return [self._exact(number) for number in dict.fromkeys(numbers)]

    def _pasted(self, text: str, among: Sequence[int]) -> dict[int, Hit]:
        """Tools whose very name is in the text. A plain word counts only if it is all of it."""
        names = [text, *(token for token in _TOKEN.findall(text) if _COMPOSED.search(token))]
        found = (self._by_name.get(name.strip(".").casefold(), ()) for name in names)
        allowed = among if isinstance(among, range) else frozenset(among)
        return {n: self._exact(n) for numbers in found for n in numbers if n in allowed}

    def _whole_server(self, asked: Query, among: Sequence[int]) -> dict[int, Hit]:
        """The tools of the server whose name is all that was asked for."""
        numbers = self._by_server.get(asked.text.casefold(), ())
        return {number: self._of_server(number) for number in numbers if number in among}

    def _ranked(self, text: str, among: Sequence[int], limit: int) -> Iterator[tuple[int, Hit]]:
        question = self._interpreter.understand(text)
        mentioned = self._mentioned(question.asked)
        for number, score in self._ranking.best(question, limit, among, mentioned):
            entry = self.entries[number]
            yield number, Hit(entry, score, reasons(question, entry, self._lexicon))

    def _mentioned(self, words: Sequence[str]) -> set[int]:
        """The tools of servers that are named, also in several words: `desktop commander`."""
        spans = (
            "".join(words[at : at + length]) for length in (1, 2, 3) for at in range(len(words))
        )
        return {number for span in spans for number in self._by_mention.get(span, ())}

    def _exact(self, number: int) -> Hit:
        return Hit(self.entries[number], _EXACT, ("exact name",))

    def _of_server(self, number: int) -> Hit:
        entry = self.entries[number]
        return Hit(entry, _WHOLE_SERVER, (f"tool of {entry.server}",))


def _numbers(entries: Sequence[Entry], keys: Callable[[Entry], set[str]]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for number, entry in enumerate(entries):
        for key in keys(entry):
            numbers.setdefault(key, []).append(number)
    return numbers


def _mention(server: str) -> str:
    """How a sentence would name a server: `mcp-server-time` is `time`."""
    words = [word for word in words_of_name(server) if word not in ("mcp", "server")]
    return "".join(words) if len("".join(words)) >= _SHORTEST_MENTION else ""


def _spellings(entry: Entry) -> set[str]:
    names = (entry.name, entry.tool, f"{entry.server}__{entry.tool}", *entry.aliases)
    return {name.casefold() for name in (*names, rule_name(entry.server, entry.tool))}


def _in_name(word: str, entry: Entry) -> bool:
    full = f"{entry.server}__{entry.tool}"
    return word in full.casefold() or stem(word) in map(stem, words_of_name(full))
