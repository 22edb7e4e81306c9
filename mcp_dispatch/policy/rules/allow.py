"""Allow rules: whether they cover every part of a call that is fully understood."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mcp_dispatch.fs.resolve import PathAnchors
from mcp_dispatch.policy.commands.file_access import FileAccess
from mcp_dispatch.policy.commands.pattern import SEPARATOR, CommandPattern
from mcp_dispatch.policy.commands.wrappers import (
    FIND_UNSAFE_ACTIONS,
    SHELL_TEXT_BUILTINS,
    SHELLS,
    SUBSTITUTING_BUILTINS,
    find_wrapped_command,
    get_program_name,
    is_wrapper,
    unwrap_command,
)
from mcp_dispatch.policy.domains import DomainPattern, parse_host
from mcp_dispatch.policy.facts import CallFacts, FileNames
from mcp_dispatch.policy.paths.pattern import PathPattern
from mcp_dispatch.policy.paths.rules import PathRules
from mcp_dispatch.policy.rules.index import CommandIndex, DomainIndex, TargetIndex
from mcp_dispatch.policy.rules.model import PermissionRule, Target, ToolTarget
from mcp_dispatch.shell.analyze import is_harmless_assignment
from mcp_dispatch.shell.ast import EXPANSION, Form, PlainScript, SimpleCommand, Word

_UNREACHABLE_WORD_COUNT = 1_000_000
_READ, _EDIT = ToolTarget("Read"), ToolTarget("Edit")


class AllowRules:
    """Allow rules, indexed by kind. `empty`: there are none."""

    def __init__(self, rules: Sequence[PermissionRule]) -> None:
        self._rules = tuple(rules)
        self.empty = not self._rules
        bare: dict[int, Target] = {}
        commands: dict[int, CommandPattern] = {}
        domains: dict[int, DomainPattern] = {}
        files: dict[Target, dict[int, PathPattern]] = {_READ: {}, _EDIT: {}}
        for position, rule in enumerate(self._rules):
            match rule.specifier:
                case None:
                    bare[position] = rule.target
                case CommandPattern() as pattern:
                    commands[position] = pattern
                case PathPattern() as pattern:
                    files[rule.target][position] = pattern
                case DomainPattern() as pattern:
                    domains[position] = pattern
                case _:
                    continue
        self._bare_rules = TargetIndex(bare)
        self._commands = CommandIndex(commands)
        self._command_patterns = commands
        self._domains = DomainIndex(domains)
        self._edits = PathRules(files[_EDIT], wide=False)
        # An Edit allow also permits the read.
        self._reads = PathRules({**files[_READ], **files[_EDIT]}, wide=False)
        self._bare_edits = [position for position, target in bare.items() if target == _EDIT]

    def with_rules(self, rules: Sequence[PermissionRule]) -> "AllowRules":
        return AllowRules([*self._rules, *rules])

    def find_covering(
        self,
        facts: CallFacts,
        anchors: PathAnchors,
        may_write: Callable[[FileAccess], bool],
        can_read: Callable[[int], bool],
    ) -> tuple[PermissionRule, ...]:
        """Return the rules that together allow the call, or none if a part is not covered.

        `may_write` decides about the target of a redirect, `can_read` whether the command at a
        position of the script needs no rule because it only reads.
        """
        subject = facts.subject
        covering = sorted(self._bare_rules.find_covering(subject, strict=True))
        if subject.url is not None:
            # Host rules count beside a bare rule: only they open private addresses.
            host = parse_host(subject.url)
            covering += [] if host is None else sorted(self._domains.find_covering(host))
        if covering or subject.url is not None:
            return self._select_rules(covering)
        if facts.parsed_command is not None:
            return self._find_command_rules(facts, may_write, can_read)
        if facts.writes:
            return self._find_file_rules(self._edits, facts.writes, anchors)
        return self._find_file_rules(self._reads, facts.reads, anchors)

    def find_write_rules(
        self, files: Sequence[FileNames], anchors: PathAnchors
    ) -> tuple[PermissionRule, ...]:
        """Return the rules that allow all of these writes; a bare `Edit` allows any."""
        bare = self._select_rules(self._bare_edits)
        return bare or self._find_file_rules(self._edits, files, anchors)

    def _find_file_rules(
        self, rules: PathRules, files: Sequence[FileNames], anchors: PathAnchors
    ) -> tuple[PermissionRule, ...]:
        used: list[int] = []
        for names in files:
            covering = rules.find_covering_all(names, anchors)
            if not covering:
                return ()
            used.append(min(covering))
        return self._select_rules(used)

    def _select_rules(self, positions: Sequence[int]) -> tuple[PermissionRule, ...]:
        return tuple(self._rules[position] for position in dict.fromkeys(positions))

    def _find_command_rules(
        self,
        facts: CallFacts,
        may_write: Callable[[FileAccess], bool],
        can_read: Callable[[int], bool],
    ) -> tuple[PermissionRule, ...]:
        command, shell = facts.parsed_command, facts.shell_access
        if command is None or shell is None or not isinstance(command.script, PlainScript):
            return ()
        script = command.script
        if not all(map(may_write, shell.redirects)) or not _has_only_file_redirects(script):
            return ()
        exact = self._commands.find_exact(command.text)
        if exact:
            return self._select_rules(exact[:1])
        if _has_unknown_directory(script):
            return ()
        return self._find_rules_per_command(script, can_read)

    def _find_rules_per_command(
        self, script: PlainScript, can_read: Callable[[int], bool]
    ) -> tuple[PermissionRule, ...]:
        """Find a rule for each command; commands of a substitution always need one."""
        needs_rules = script.form is Form.SUBSTITUTING
        used: list[int] = []
        for position, command in enumerate(script.commands):
            if not command.words and has_harmless_assignments(command):
                continue
            rule_position = next(self._iter_matching_positions(command), None)
            if rule_position is not None:
                used.append(rule_position)
            elif needs_rules or not can_read(position):
                return ()
        return self._select_rules(used)

    def _iter_matching_positions(self, command: SimpleCommand) -> Iterator[int]:
        for line in _list_command_lines(command):
            for position in self._commands.find_candidates(line.text):
                if line.matches(self._command_patterns[position]):
                    yield position


@dataclass(frozen=True, slots=True)
class _CommandLine:
    """One form of a command, and how many of its words a rule must contain literally."""

    text: str
    assignment_count: int
    required_words: int

    def matches(self, pattern: CommandPattern) -> bool:
        return (
            pattern.assignment_count == self.assignment_count
            and pattern.literal_word_count >= self.required_words
            and pattern.matches(self.text)
        )


def _list_command_lines(command: SimpleCommand) -> list[_CommandLine]:
    """Return the forms of a command: without harmless assignments, and with all of them."""
    words = command.words
    if not words:
        return []
    lines: list[_CommandLine] = []
    if has_harmless_assignments(command):
        forms = dict.fromkeys((words, unwrap_command(words) or words))
        lines.extend(
            _CommandLine(_join_shapes(form), 0, _count_required_words(form)) for form in forms
        )
    if command.assignments:
        count = len(command.assignments)
        assignments = [
            f"{assignment.name}={assignment.value.shape}" for assignment in command.assignments
        ]
        text = SEPARATOR.join([*assignments, _join_shapes(words)])
        lines.append(_CommandLine(text, count, count + _count_required_words(words)))
    return lines


def _join_shapes(words: Sequence[Word]) -> str:
    return SEPARATOR.join(word.shape for word in words)


def _count_required_words(words: Sequence[Word]) -> int:
    """Return how many words a rule must contain literally: a `*` never matches the program."""
    name = get_program_name(words)
    if not words[0].fixed:
        return _UNREACHABLE_WORD_COUNT
    if name in SUBSTITUTING_BUILTINS and any(
        "$(" in word.value or "`" in word.value for word in words
    ):
        return len(words)
    if name == "find" and any(
        not word.fixed or word.value in FIND_UNSAFE_ACTIONS for word in words
    ):
        return len(words)
    if name in SHELLS or name in SHELL_TEXT_BUILTINS or name == "ssh":
        return 1
    if not is_wrapper(words):
        return 0
    wrapped = find_wrapped_command(words)
    if wrapped is None:
        return 1
    start = wrapped.starts[0] if wrapped.certain else len(words)
    if start >= len(words):
        return len(words)
    return start + max(1, _count_required_words(words[start:]))


def has_harmless_assignments(command: SimpleCommand) -> bool:
    """Return whether the assignments only change language, colour and similar output."""
    return all(map(is_harmless_assignment, command.assignments))


def _has_only_file_redirects(script: PlainScript) -> bool:
    """Return whether no redirect opens a network connection, as bash does for `/dev/tcp/…`."""
    targets = [redirect.target for command in script.commands for redirect in command.redirects]
    return all(
        EXPANSION not in target.shape and not target.value.startswith(("/dev/tcp", "/dev/udp"))
        for target in targets
    )


def _has_unknown_directory(script: PlainScript) -> bool:
    """Return whether a command follows a `cd` to an unknown directory."""
    for command in script.commands[:-1]:
        name = get_program_name(command.words)
        if name in ("pushd", "popd") or (name == "cd" and not is_simple_cd(command.words)):
            return True
    return False


def is_simple_cd(words: Sequence[Word]) -> bool:
    return len(words) == 2 and words[1].fixed and not words[1].value.startswith("-")
