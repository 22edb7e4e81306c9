"""What can be told of a call before it runs: the files it touches and the commands it holds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import PathResolutionError, resolve_all_names
from mcp_dispatch.policy.commands.expand import ParsedCommand, parse_command
from mcp_dispatch.policy.commands.file_access import (
    COPIERS,
    PATTERN_READERS,
    READERS,
    WRITERS,
    FileAccess,
    FileAccesses,
    collect_file_accesses,
)
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import EXPANSION, UnparsedScript

FileNames = tuple[Path, ...]
"""All names of one file: as given, each step of its links, where it really is."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """`reads` and `writes` are a file tool's; the `shell_` ones a command's, as far as known.

    `unresolved` says why a file tool's path cannot be followed to its end.
    """

    subject: Subject
    reads: tuple[FileNames, ...] = ()
    writes: tuple[FileNames, ...] = ()
    unresolved_reason: str | None = None
    parsed_command: ParsedCommand | None = None
    shell_access: FileAccesses | None = None
    """Of the outermost text, where it is plain."""
    shell_reads: tuple[FileNames, ...] = ()
    shell_writes: tuple[FileNames, ...] = ()
    shell_mentions: tuple[FileNames, ...] = ()
    runs_mcp_dispatch: bool = False


def collect_facts(subject: Subject, home: Path) -> CallFacts:
    command = subject.command
    if command is not None:
        return _collect_command_facts(subject, command, home)
    try:
        return CallFacts(
            subject,
            reads=tuple(_resolve_names(subject, path, home) for path in subject.read_paths),
            writes=tuple(_resolve_names(subject, path, home) for path in subject.write_paths),
        )
    except PathResolutionError as reason:
        return CallFacts(subject, unresolved_reason=str(reason))


def _resolve_names(subject: Subject, path: str, home: Path) -> FileNames:
    return subject.resolved_paths.get(path) or resolve_all_names(path, subject.cwd, home)


def _collect_command_facts(subject: Subject, command: str, home: Path) -> CallFacts:
    read = parse_command(command)
    all_touches = [collect_file_accesses(plain, subject.cwd, home) for plain in read.plain_scripts]
    directories = None if subject.cwd is None else (subject.cwd,)
    unsure = read.partly_unparsed or isinstance(read.script, UnparsedScript)
    runs = read.token_runs if unsure else ()
    loose = [tuple(FileAccess(token, directories) for token in run) for run in runs]
    outermost = bool(all_touches) and read.plain_scripts[0] == read.script
    reads = [touch for one in all_touches for touch in one.reads]
    writes = [touch for one in all_touches for touch in (*one.writes, *one.redirects)]
    named = [touch for one in all_touches for touch in one.mentions]
    for run in loose:
        reads.extend(_iter_operands_after(run, READERS | PATTERN_READERS))
        # A word that stands alone may have been the target of a redirect.
        writes.extend(run if len(run) == 1 else _iter_operands_after(run, WRITERS | COPIERS))
        named.extend(run)
    return CallFacts(
        subject,
        parsed_command=read,
        shell_access=all_touches[0] if outermost else None,
        shell_reads=tuple(resolve_accesses(reads, home)),
        shell_writes=tuple(resolve_accesses(writes, home)),
        shell_mentions=tuple(resolve_accesses(named, home)),
        runs_mcp_dispatch=_may_run_mcp_dispatch(read),
    )


def _iter_operands_after(
    accesses: tuple[FileAccess, ...], programs: frozenset[str]
) -> Iterator[FileAccess]:
    found = False
    for touch in accesses:
        if found and not touch.path.startswith("-"):
            yield touch
        found = found or touch.path.rpartition("/")[2] in programs


def resolve_accesses(accesses: Iterable[FileAccess], home: Path) -> Iterator[FileNames]:
    """The files that are known; those that only the shell knows are passed over."""
    for touch in dict.fromkeys(accesses):
        if not touch.known or EXPANSION in touch.path:
            continue
        for directory in touch.directories or (Path("/"),):
            try:
                yield resolve_all_names(touch.path, directory, home)
            except PathResolutionError:
                continue


def _may_run_mcp_dispatch(command: ParsedCommand) -> bool:
    """Whether this very program is among the commands."""
    named = any(_is_mcp_dispatch([word.value for word in words]) for words in command.commands)
    # `python -m mcp_dispatch` has options of its own in between, or none.
    return named or any(
        _is_mcp_dispatch(run[at:]) for run in command.token_runs for at in range(len(run))
    )


def _is_mcp_dispatch(words: list[str] | tuple[str, ...]) -> bool:
    name = words[0].rpartition("/")[2]
    if name in ("mcp-dispatch", "mcp_dispatch"):
        return True
    module = "mcp_dispatch" in words or "-mmcp_dispatch" in words
    return name.startswith(("python", "pypy", "uv", "pipx")) and (module or "mcp-dispatch" in words)
