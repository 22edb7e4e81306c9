"""Whether allow rules cover a call: every part of it, and only what is certainly understood."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mcp_dispatch.fs.resolve import Places
from mcp_dispatch.policy.commands.file_access import Touch
from mcp_dispatch.policy.commands.pattern import SEPARATOR, CommandPattern
from mcp_dispatch.policy.commands.wrappers import (
    EVALUATING,
    EVALUATORS,
    FIND_ACTS,
    SHELLS,
    inner,
    program,
    strictly_unwrapped,
    wraps,
)
from mcp_dispatch.policy.domains import DomainPattern, host_of
from mcp_dispatch.policy.facts import Evidence, Names
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.paths.rules import PathRules
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex, NameIndex
from mcp_dispatch.policy.rules.model import Rule, Target, ToolNamed
from mcp_dispatch.shell.analyze import is_harmless
from mcp_dispatch.shell.ast import EXPANSION, Form, Plain, SimpleCommand, Word

_NEVER = 1_000_000
_READ, _EDIT = ToolNamed("Read"), ToolNamed("Edit")


class AllowRules:
    """The allow rules, filed by what they are about."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        bare: dict[int, Target] = {}
        commands: dict[int, CommandPattern] = {}
        domains: dict[int, DomainPattern] = {}
        files: dict[Target, dict[int, PathPattern]] = {_READ: {}, _EDIT: {}}
        for at, rule in enumerate(self._rules):
            match rule.specifier:
                case None:
                    bare[at] = rule.target
                case CommandPattern() as pattern:
                    commands[at] = pattern
                case PathPattern() as pattern:
                    files[rule.target][at] = pattern
                case DomainPattern() as pattern:
                    domains[at] = pattern
                case _:
                    continue
        self._bare = NameIndex(bare)
        self._commands = CommandIndex(commands)
        self._patterns = commands
        self._domains = DomainIndex(domains)
        self._edits = PathRules(files[_EDIT], wide=False)
        # An Edit allow also grants the read.
        self._reads = PathRules({**files[_READ], **files[_EDIT]}, wide=False)
        self._edit_anything = [at for at, target in bare.items() if target == _EDIT]

    def plus(self, rules: Sequence[Rule]) -> "AllowRules":
        return AllowRules([*self._rules, *rules])

    def covering(
        self,
        evidence: Evidence,
        places: Places,
        may_write: Callable[[Touch], bool],
        looks: Callable[[int], bool],
    ) -> tuple[Rule, ...]:
        """The rules that together allow the call; empty where something of it is left over.

        `may_write` judges the targets of a command's redirects, `looks` whether the command at a
        position of the text needs no rule.
        """
        subject = evidence.subject
        whole = sorted(self._bare.covering(subject, strictly=True))
        if subject.url is not None:
            # Heard beside a rule for every host: it may open what that one does not.
            host = host_of(subject.url)
            whole += [] if host is None else sorted(self._domains.covering(host))
        if whole or subject.url is not None:
            return self._named(whole)
        if evidence.reading is not None:
            return self._for_command(evidence, may_write, looks)
        if evidence.writes:
            return self._for_files(self._edits, evidence.writes, places)
        return self._for_files(self._reads, evidence.reads, places)

    def for_writes(self, files: Sequence[Names], places: Places) -> tuple[Rule, ...]:
        """The rules that allow all of these writes, a bare `Edit` among them."""
        bare = self._named(self._edit_anything)
        return bare or self._for_files(self._edits, files, places)

    def _for_files(
        self, rules: PathRules, files: Sequence[Names], places: Places
    ) -> tuple[Rule, ...]:
        used: list[int] = []
        for names in files:
            found = rules.covering_all(names, places)
            if not found:
                return ()
            used.append(min(found))
        return self._named(used)

    def _named(self, positions: Sequence[int]) -> tuple[Rule, ...]:
        return tuple(self._rules[at] for at in dict.fromkeys(positions))

    def _for_command(
        self, evidence: Evidence, may_write: Callable[[Touch], bool], looks: Callable[[int], bool]
    ) -> tuple[Rule, ...]:
        read, shell = evidence.reading, evidence.shell
        if read is None or shell is None or not isinstance(read.plain, Plain):
            return ()
        if not all(map(may_write, shell.redirects)) or not _reads_plainly(read.plain):
            return ()
        exact = self._commands.equal_to(read.text)
        if exact:
            return self._named(exact[:1])
        return () if _loses_its_way(read.plain) else self._for_each(read.plain, looks)

    def _for_each(self, plain: Plain, looks: Callable[[int], bool]) -> tuple[Rule, ...]:
        """What is substituted into another command is covered by rules alone."""
        alone = plain.form is Form.SUBSTITUTING
        used: list[int] = []
        for position, command in enumerate(plain.commands):
            if not command.words and assigns_harmlessly(command):
                continue
            rule = next(self._for_one(command), None)
            if rule is not None:
                used.append(rule)
            elif alone or not looks(position):
                return ()
        return self._named(used)

    def _for_one(self, command: SimpleCommand) -> Iterator[int]:
        for line in _lines(command):
            for at in self._commands.starting(line.text):
                if line.fits(self._patterns[at]):
                    yield at


@dataclass(frozen=True, slots=True)
class _Line:
    """One way to spell a command, and how much of it a rule must spell in full."""

    text: str
    assigned: int
    spelled: int

    def fits(self, pattern: CommandPattern) -> bool:
        return (
            pattern.assigned == self.assigned
            and pattern.leading >= self.spelled
            and pattern.fits(self.text)
        )


def _lines(command: SimpleCommand) -> list[_Line]:
    """Without its assignments where they are safe; with them for a rule that spells them."""
    words = command.words
    if not words:
        return []
    lines: list[_Line] = []
    if assigns_harmlessly(command):
        ways = dict.fromkeys((words, strictly_unwrapped(words) or words))
        lines.extend(_Line(_joined(way), 0, _to_be_spelled(way)) for way in ways)
    if command.assignments:
        count = len(command.assignments)
        assigned = [f"{one.name}={one.value.shape}" for one in command.assignments]
        text = SEPARATOR.join([*assigned, _joined(words)])
        lines.append(_Line(text, count, count + _to_be_spelled(words)))
    return lines


def _joined(words: Sequence[Word]) -> str:
    return SEPARATOR.join(word.shape for word in words)


def _to_be_spelled(words: Sequence[Word]) -> int:
    """How many words a rule must name in full: a `*` never stands for what is run."""
    name = program(words)
    if not words[0].fixed:
        return _NEVER
    if name in EVALUATING and any("$(" in word.value or "`" in word.value for word in words):
        return len(words)
    if name == "find" and any(not word.fixed or word.value in FIND_ACTS for word in words):
        return len(words)
    if name in SHELLS or name in EVALUATORS or name == "ssh":
        return 1
    if not wraps(words):
        return 0
    found = inner(words)
    if found is None:
        return 1
    start = found.starts[0] if found.certain else len(words)
    return start + max(1, _to_be_spelled(words[start:])) if start < len(words) else len(words)


def assigns_harmlessly(command: SimpleCommand) -> bool:
    """Whether its assignments change nothing but language, colour and the like."""
    return all(map(is_harmless, command.assignments))


def _reads_plainly(plain: Plain) -> bool:
    """Whether no redirect opens a network connection: bash does for `/dev/tcp/…`."""
    targets = [redirect.target for command in plain.commands for redirect in command.redirects]
    return all(
        EXPANSION not in target.shape and not target.value.startswith(("/dev/tcp", "/dev/udp"))
        for target in targets
    )


def _loses_its_way(plain: Plain) -> bool:
    """Whether a command follows a `cd` to a place that is not known."""
    for command in plain.commands[:-1]:
        name = program(command.words)
        if name in ("pushd", "popd") or (name == "cd" and not is_plain_move(command.words)):
            return True
    return False


def is_plain_move(words: Sequence[Word]) -> bool:
    return len(words) == 2 and words[1].fixed and not words[1].value.startswith("-")
