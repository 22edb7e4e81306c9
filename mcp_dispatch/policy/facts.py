"""Facts about a call before it runs: the files it accesses and the commands it contains."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors, PathResolutionError, resolve_all_names
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
"""All names of one file: as given, each step of its links, and its real path."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """`reads` and `writes` are files of a file tool; the `shell_` fields are those of a command.

    `shell_mentions` are all paths that a command names, whether it reads or writes them or not.
    """

    subject: Subject
    reads: tuple[FileNames, ...] = ()
    writes: tuple[FileNames, ...] = ()
    unresolved_reason: str | None = None
    """Why the path of a file tool cannot be resolved."""
    parsed_command: ParsedCommand | None = None
    shell_access: FileAccesses | None = None
    """The accesses of the outermost script, if it is plain."""
    shell_reads: tuple[FileNames, ...] = ()
    shell_writes: tuple[FileNames, ...] = ()
    shell_mentions: tuple[FileNames, ...] = ()
    runs_mcp_dispatch: bool = False

    @property
    def unparsed_reason(self) -> str | None:
        """Why some part of the command is not understood, or None."""
        command = self.parsed_command
        if command is None:
            return None
        if isinstance(command.script, UnparsedScript):
            return command.script.reason
        incomplete = command.partly_unparsed or not command.complete
        return "a part of it is not plain" if incomplete else None


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


def build_anchors(home: Path, workspace: Sequence[Path], cwd: Path | None) -> PathAnchors:
    """Return anchors for which `./` means the workspace and the current directory of the shell."""
    directories = (*workspace, *((cwd,) if cwd else ()))
    return PathAnchors(home, tuple(dict.fromkeys(directories)))


def _resolve_names(subject: Subject, path: str, home: Path) -> FileNames:
    return subject.resolved_paths.get(path) or resolve_all_names(path, subject.cwd, home)


def _collect_command_facts(subject: Subject, text: str, home: Path) -> CallFacts:
    command = parse_command(text)
    scripts = [collect_file_accesses(plain, subject.cwd, home) for plain in command.plain_scripts]
    directories = None if subject.cwd is None else (subject.cwd,)
    uncertain = command.partly_unparsed or isinstance(command.script, UnparsedScript)
    reads = [access for script in scripts for access in script.reads]
    writes = [access for script in scripts for access in (*script.writes, *script.redirects)]
    mentions = [access for script in scripts for access in script.mentions]
    for tokens in command.token_runs if uncertain else ():
        run = tuple(FileAccess(token, directories) for token in tokens)
        reads.extend(_iter_operands_after(run, READERS | PATTERN_READERS))
        # A run of one word may have been the target of a redirect.
        writes.extend(run if len(run) == 1 else _iter_operands_after(run, WRITERS | COPIERS))
        mentions.extend(run)
    outermost = bool(scripts) and command.plain_scripts[0] == command.script
    return CallFacts(
        subject,
        parsed_command=command,
        shell_access=scripts[0] if outermost else None,
        shell_reads=tuple(resolve_accesses(reads, home)),
        shell_writes=tuple(resolve_accesses(writes, home)),
        shell_mentions=tuple(resolve_accesses(mentions, home)),
        runs_mcp_dispatch=_may_run_mcp_dispatch(command),
    )


def _iter_operands_after(
    accesses: tuple[FileAccess, ...], programs: frozenset[str]
) -> Iterator[FileAccess]:
    program_seen = False
    for access in accesses:
        if program_seen and not access.path.startswith("-"):
            yield access
        program_seen = program_seen or access.path.rpartition("/")[2] in programs


def resolve_accesses(accesses: Iterable[FileAccess], home: Path) -> Iterator[FileNames]:
    """Yield the names of each accessed file; skip paths that only the running shell can expand."""
    for access in dict.fromkeys(accesses):
        if not access.known or EXPANSION in access.path:
            continue
        for directory in access.directories or (Path("/"),):
            try:
                yield resolve_all_names(access.path, directory, home)
            except PathResolutionError:
                continue


def _may_run_mcp_dispatch(command: ParsedCommand) -> bool:
    parsed = any(_is_mcp_dispatch([word.value for word in words]) for words in command.commands)
    # Options may stand between `python` and `-m mcp_dispatch`, so every start is tried.
    return parsed or any(
        _is_mcp_dispatch(run[start:]) for run in command.token_runs for start in range(len(run))
    )


def _is_mcp_dispatch(words: list[str] | tuple[str, ...]) -> bool:
    name = words[0].rpartition("/")[2]
    if name in ("mcp-dispatch", "mcp_dispatch"):
        return True
    module = "mcp_dispatch" in words or "-mmcp_dispatch" in words
    return name.startswith(("python", "pypy", "uv", "pipx")) and (module or "mcp-dispatch" in words)
