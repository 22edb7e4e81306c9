"""Many command patterns at once: a command is tried only on those that begin as it does."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mcp_dispatch.policy.commands.expand import Reading, starts_of
from mcp_dispatch.policy.commands.pattern import (
    ANYTHING,
    SEPARATOR,
    CommandPattern,
    Match,
    Wildcard,
    collapsed,
)
from mcp_dispatch.policy.domains import DomainPattern
from mcp_dispatch.policy.rules.model import NamesLike, ServerNamed, Target, ToolNamed
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import EXPANSION

_KEY = 3
"""By how many of its first words a pattern is filed."""


class CommandIndex:
    """Patterns known by their position."""

    def __init__(self, patterns: Mapping[int, CommandPattern]) -> None:
        self._patterns = patterns
        self._filed: dict[tuple[str, ...], list[int]] = {}
        self._beyond: dict[tuple[str, ...], list[int]] = {}
        self._ending: dict[str, list[int]] = {}
        self._texts: list[int] = []
        self._exact: dict[str, list[int]] = {}
        for at, pattern in patterns.items():
            self._file(at, pattern)

    def matching(self, reading: Reading) -> dict[int, Match]:
        """The patterns that a text holds at any depth, or that it may hold."""
        if not reading.complete:
            return dict.fromkeys(self._patterns, Match.YES)
        found: dict[int, Match] = dict.fromkeys(self._of_whole_text(reading.text), Match.YES)
        for line in reading.lines:
            self._add(found, self._of_line(line))
        for run in reading.runs:
            self._add(found, self._of_run(run))
        return found

    def equal_to(self, text: str) -> Sequence[int]:
        """The patterns that are exactly this text."""
        return self._exact.get(text.strip(), ())

    def starting(self, line: str) -> Iterator[int]:
        """The patterns that may match a line: they begin with its words, as far as these are known."""
        words = tuple(line.split(SEPARATOR, _KEY)[:_KEY])
        known = next((at for at, word in enumerate(words) if EXPANSION in word), len(words))
        for length in range(known + 1):
            yield from self._filed.get(words[:length], ())
        yield from self._ending_as(line)
        if known < len(words):
            yield from self._beyond.get(words[:known], ())

    def _ending_as(self, line: str) -> Iterator[int]:
        """The patterns that begin with a `*` and end with the last word of the line."""
        last = line.rpartition(SEPARATOR)[2]
        if EXPANSION not in last:
            yield from self._ending.get(last, ())
            return
        for positions in self._ending.values():
            yield from positions

    def _of_line(self, line: str) -> Iterator[tuple[int, Match]]:
        for at in self.starting(line):
            yield at, self._patterns[at].match(line)

    def _of_run(self, run: tuple[str, ...]) -> Iterator[tuple[int, Match]]:
        joined = SEPARATOR.join(run)
        words = tuple(joined.split(SEPARATOR))
        keys = {words[at : at + length] for at in range(len(words)) for length in range(_KEY + 1)}
        filed = (at for key in keys for at in self._filed.get(key, ()))
        for at in (*filed, *self._ending_as(joined)):
            if self._patterns[at].occurs_in(joined):
                yield at, Match.YES
        start = starts_of(run)
        if start and any(EXPANSION in token for token in start):
            yield from self._of_line(SEPARATOR.join(start))

    def _of_whole_text(self, text: str) -> Iterator[int]:
        yield from self.equal_to(text)
        if not self._texts:
            return
        line = collapsed(text)
        for at in self._texts:
            pieces = self._patterns[at].text.pieces
            if Wildcard(("", *pieces, "")).matches(line):
                yield at

    def _add(self, found: dict[int, Match], more: Iterable[tuple[int, Match]]) -> None:
        for at, match in more:
            if match.value > found.get(at, Match.NO).value:
                found[at] = match

    def _file(self, at: int, pattern: CommandPattern) -> None:
        if pattern.exact is not None:
            self._exact.setdefault(pattern.exact, []).append(at)
        if not pattern.anchored:
            self._texts.append(at)
            return
        key = pattern.spelled[:_KEY]
        last = pattern.words[-1]
        if not key and not pattern.open and len(pattern.words) > 1 and ANYTHING not in last:
            self._ending.setdefault(last, []).append(at)
            return
        self._filed.setdefault(key, []).append(at)
        for length in range(len(key)):
            self._beyond.setdefault(key[:length], []).append(at)


_LABELS = 2
"""By how many of its last labels a pattern is filed."""


class DomainIndex:
    """Patterns known by their position."""

    def __init__(self, patterns: Mapping[int, DomainPattern]) -> None:
        self._patterns = patterns
        self._filed: dict[tuple[str, ...], list[int]] = {}
        for at, pattern in patterns.items():
            self._filed.setdefault(_key(pattern), []).append(at)

    def covering(self, host: str | None) -> Iterator[int]:
        """The patterns that mean the host. All may mean one that cannot be read."""
        if host is None:
            yield from self._patterns
            return
        labels = host.split(".")
        for length in range(min(_LABELS, len(labels)) + 1):
            for at in self._filed.get(tuple(labels[len(labels) - length :]), ()):
                if self._patterns[at].covers(host):
                    yield at


def _key(pattern: DomainPattern) -> tuple[str, ...]:
    """Its last labels, up to the first that has a `*`."""
    key: list[str] = []
    for label in reversed(pattern.labels[-_LABELS:]):
        if not label.literal:
            break
        key.insert(0, label.pieces[0])
    return tuple(key)


class NameIndex:
    """Targets known by their position."""

    def __init__(self, targets: Mapping[int, Target]) -> None:
        self._targets = targets
        self._named: dict[str, list[int]] = {}
        self._servers: dict[str, list[int]] = {}
        self._always: list[int] = []
        for position, target in targets.items():
            self._file(position, target)

    def covering(self, subject: Subject, *, strictly: bool) -> Iterator[int]:
        """The targets that mean the tool. An allow is read strictly: by its rule name alone."""
        for position in self.candidates(subject):
            if self._targets[position].covers(subject, strictly=strictly):
                yield position

    def candidates(self, subject: Subject) -> Iterable[int]:
        names = (subject.rule_name, subject.exposed_name)
        found = [self._named.get(unicodedata.normalize("NFKC", name), ()) for name in names]
        servers = self._servers.get(subject.server, ()) if subject.server is not None else ()
        return dict.fromkeys([*found[0], *found[1], *servers, *self._always])

    def _file(self, position: int, target: Target) -> None:
        match target:
            case ToolNamed(name):
                key = unicodedata.normalize("NFKC", name)
                self._named.setdefault(key, []).append(position)
            case ServerNamed():
                # Its name in full also means a tool that is listed under that name.
                key = unicodedata.normalize("NFKC", target.written)
                self._named.setdefault(key, []).append(position)
                if not target.tools.literal:
                    self._servers.setdefault(target.server, []).append(position)
            case NamesLike():
                self._always.append(position)
