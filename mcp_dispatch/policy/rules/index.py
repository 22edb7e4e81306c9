"""Indexes of rules: a call is compared only with the rules that may match it."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mcp_dispatch.policy.commands.expand import ParsedCommand, skip_to_program
from mcp_dispatch.policy.commands.pattern import (
    ANYTHING,
    SEPARATOR,
    CommandPattern,
    RuleMatch,
    Wildcard,
    collapse_blanks,
)
from mcp_dispatch.policy.domains import DomainPattern
from mcp_dispatch.policy.rules.model import ServerTarget, Target, ToolTarget, WildcardTarget
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import EXPANSION

_KEY_WORDS = 3
"""The number of leading words by which a pattern is indexed."""


class CommandIndex:
    """Command patterns, identified by their position in the list of rules."""

    def __init__(self, patterns: Mapping[int, CommandPattern]) -> None:
        self._patterns = patterns
        self._by_leading_words: dict[tuple[str, ...], list[int]] = {}
        self._by_shorter_prefix: dict[tuple[str, ...], list[int]] = {}
        self._by_last_word: dict[str, list[int]] = {}
        self._whole_text_patterns: list[int] = []
        self._by_exact_text: dict[str, list[int]] = {}
        for position, pattern in patterns.items():
            self._insert(position, pattern)

    def find_matches(self, command: ParsedCommand) -> dict[int, RuleMatch]:
        """Return the patterns that match a command at any depth, or that may match."""
        if not command.complete:
            return dict.fromkeys(self._patterns, RuleMatch.YES)
        found: dict[int, RuleMatch] = dict.fromkeys(
            self._match_whole_text(command.text), RuleMatch.YES
        )
        for line in command.lines:
            _merge(found, self._match_line(line))
        for run in command.token_runs:
            _merge(found, self._match_token_run(run))
        return found

    def find_exact(self, text: str) -> Sequence[int]:
        """Return the patterns that are exactly this text."""
        return self._by_exact_text.get(text.strip(), ())

    def find_candidates(self, line: str) -> Iterator[int]:
        """Yield the patterns that begin with the known leading words of the line."""
        words = tuple(line.split(SEPARATOR, _KEY_WORDS)[:_KEY_WORDS])
        known = next((index for index, word in enumerate(words) if EXPANSION in word), len(words))
        for length in range(known + 1):
            yield from self._by_leading_words.get(words[:length], ())
        yield from self._find_by_last_word(line)
        if known < len(words):
            yield from self._by_shorter_prefix.get(words[:known], ())

    def _find_by_last_word(self, line: str) -> Iterator[int]:
        """Yield the patterns that begin with a `*` and end with the last word of the line."""
        last = line.rpartition(SEPARATOR)[2]
        if EXPANSION not in last:
            yield from self._by_last_word.get(last, ())
            return
        for positions in self._by_last_word.values():
            yield from positions

    def _match_line(self, line: str) -> Iterator[tuple[int, RuleMatch]]:
        for position in self.find_candidates(line):
            yield position, self._patterns[position].match_line(line)

    def _match_token_run(self, tokens: tuple[str, ...]) -> Iterator[tuple[int, RuleMatch]]:
        joined = SEPARATOR.join(tokens)
        words = tuple(joined.split(SEPARATOR))
        keys = {
            words[start : start + length]
            for start in range(len(words))
            for length in range(_KEY_WORDS + 1)
        }
        candidates = (position for key in keys for position in self._by_leading_words.get(key, ()))
        for position in (*candidates, *self._find_by_last_word(joined)):
            if self._patterns[position].matches_anywhere(joined):
                yield position, RuleMatch.YES
        from_program = skip_to_program(tokens)
        if from_program and any(EXPANSION in token for token in from_program):
            yield from self._match_line(SEPARATOR.join(from_program))

    def _match_whole_text(self, text: str) -> Iterator[int]:
        yield from self.find_exact(text)
        if not self._whole_text_patterns:
            return
        line = collapse_blanks(text)
        for position in self._whole_text_patterns:
            pieces = self._patterns[position].text_pattern.pieces
            if Wildcard(("", *pieces, "")).matches(line):
                yield position

    def _insert(self, position: int, pattern: CommandPattern) -> None:
        if pattern.exact_text is not None:
            self._by_exact_text.setdefault(pattern.exact_text, []).append(position)
        if not pattern.anchored:
            self._whole_text_patterns.append(position)
            return
        key = pattern.literal_words[:_KEY_WORDS]
        last = pattern.words[-1]
        if (
            not key
            and not pattern.allows_more_words
            and len(pattern.words) > 1
            and ANYTHING not in last
        ):
            self._by_last_word.setdefault(last, []).append(position)
            return
        self._by_leading_words.setdefault(key, []).append(position)
        for length in range(len(key)):
            self._by_shorter_prefix.setdefault(key[:length], []).append(position)


def _merge(found: dict[int, RuleMatch], matches: Iterable[tuple[int, RuleMatch]]) -> None:
    """Add matches; of two matches of one pattern the more certain one stays."""
    for position, match in matches:
        if match.value > found.get(position, RuleMatch.NO).value:
            found[position] = match


_KEY_LABELS = 2
"""The number of last labels by which a pattern is indexed."""


class DomainIndex:
    """Domain patterns, identified by their position in the list of rules."""

    def __init__(self, patterns: Mapping[int, DomainPattern]) -> None:
        self._patterns = patterns
        self._by_last_labels: dict[tuple[str, ...], list[int]] = {}
        for position, pattern in patterns.items():
            self._by_last_labels.setdefault(_build_key(pattern), []).append(position)

    def find_covering(self, host: str | None) -> Iterator[int]:
        """Yield the patterns that cover the host; all of them if the host is unknown."""
        if host is None:
            yield from self._patterns
            return
        labels = host.split(".")
        for length in range(min(_KEY_LABELS, len(labels)) + 1):
            for position in self._by_last_labels.get(tuple(labels[len(labels) - length :]), ()):
                if self._patterns[position].covers(host):
                    yield position


def _build_key(pattern: DomainPattern) -> tuple[str, ...]:
    """Return the last labels of a pattern, up to the first that contains a `*`."""
    key: list[str] = []
    for label in reversed(pattern.labels[-_KEY_LABELS:]):
        if not label.literal:
            break
        key.insert(0, label.pieces[0])
    return tuple(key)


class TargetIndex:
    """Targets, identified by their position in the list of rules."""

    def __init__(self, targets: Mapping[int, Target]) -> None:
        self._targets = targets
        self._by_name: dict[str, list[int]] = {}
        self._by_server: dict[str, list[int]] = {}
        self._wildcards: list[int] = []
        for position, target in targets.items():
            self._insert(position, target)

    def find_covering(self, subject: Subject, *, strict: bool) -> Iterator[int]:
        """Yield the targets that cover the tool. `strict`, for allow rules: by rule name only."""
        for position in self.find_candidates(subject):
            if self._targets[position].covers(subject, strict=strict):
                yield position

    def find_candidates(self, subject: Subject) -> Iterable[int]:
        names = (subject.rule_name, subject.exposed_name)
        found = [self._by_name.get(unicodedata.normalize("NFKC", name), ()) for name in names]
        servers = self._by_server.get(subject.server, ()) if subject.server is not None else ()
        return dict.fromkeys([*found[0], *found[1], *servers, *self._wildcards])

    def _insert(self, position: int, target: Target) -> None:
        match target:
            case ToolTarget(name):
                key = unicodedata.normalize("NFKC", name)
                self._by_name.setdefault(key, []).append(position)
            case ServerTarget():
                # The full name also covers a tool that is listed under it.
                key = unicodedata.normalize("NFKC", target.full_name)
                self._by_name.setdefault(key, []).append(position)
                if not target.tools.literal:
                    self._by_server.setdefault(target.server, []).append(position)
            case WildcardTarget():
                self._wildcards.append(position)
