"""What can be told of a call before it runs: the files it touches and the commands it holds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.fs.resolve import Unresolvable, names_of
from mcp_dispatch.policy.commands.expand import Reading, reading
from mcp_dispatch.policy.commands.file_access import (
    COPIERS,
    PATTERN_READERS,
    READERS,
    WRITERS,
    Touch,
    Touches,
    touches,
)
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.shell.ast import EXPANSION, Unknown

Names = tuple[Path, ...]
"""All names of one file: as given, each step of its links, where it really is."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """`reads` and `writes` are a file tool's; the `shell_` ones a command's, as far as known.

    `unresolved` says why a file tool's path cannot be followed to its end.
    """

    subject: Subject
    reads: tuple[Names, ...] = ()
    writes: tuple[Names, ...] = ()
    unresolved: str | None = None
    reading: Reading | None = None
    shell: Touches | None = None
    """Of the outermost text, where it is plain."""
    shell_reads: tuple[Names, ...] = ()
    shell_writes: tuple[Names, ...] = ()
    shell_names: tuple[Names, ...] = ()
    runs_us: bool = False


def gather(subject: Subject, home: Path) -> Evidence:
    command = subject.command
    if command is not None:
        return _of_command(subject, command, home)
    try:
        return Evidence(
            subject,
            reads=tuple(_names(subject, path, home) for path in subject.read_paths),
            writes=tuple(_names(subject, path, home) for path in subject.write_paths),
        )
    except Unresolvable as reason:
        return Evidence(subject, unresolved=str(reason))


def _names(subject: Subject, path: str, home: Path) -> Names:
    return subject.ends.get(path) or names_of(path, subject.cwd, home)


def _of_command(subject: Subject, command: str, home: Path) -> Evidence:
    read = reading(command)
    all_touches = [touches(plain, subject.cwd, home) for plain in read.texts]
    directories = None if subject.cwd is None else (subject.cwd,)
    unsure = read.unread or isinstance(read.plain, Unknown)
    runs = read.runs if unsure else ()
    loose = [tuple(Touch(token, directories) for token in run) for run in runs]
    outermost = bool(all_touches) and read.texts[0] == read.plain
    reads = [touch for one in all_touches for touch in one.reads]
    writes = [touch for one in all_touches for touch in (*one.writes, *one.redirects)]
    named = [touch for one in all_touches for touch in one.named]
    for run in loose:
        reads.extend(_operands_after(run, READERS | PATTERN_READERS))
        # A word that stands alone may have been the target of a redirect.
        writes.extend(run if len(run) == 1 else _operands_after(run, WRITERS | COPIERS))
        named.extend(run)
    return Evidence(
        subject,
        reading=read,
        shell=all_touches[0] if outermost else None,
        shell_reads=tuple(resolved(reads, home)),
        shell_writes=tuple(resolved(writes, home)),
        shell_names=tuple(resolved(named, home)),
        runs_us=_runs_us(read),
    )


def _operands_after(run: tuple[Touch, ...], programs: frozenset[str]) -> Iterator[Touch]:
    found = False
    for touch in run:
        if found and not touch.spelled.startswith("-"):
            yield touch
        found = found or touch.spelled.rpartition("/")[2] in programs


def resolved(found: Iterable[Touch], home: Path) -> Iterator[Names]:
    """The files that are known; those that only the shell knows are passed over."""
    for touch in dict.fromkeys(found):
        if not touch.known or EXPANSION in touch.spelled:
            continue
        for directory in touch.directories or (Path("/"),):
            try:
                yield names_of(touch.spelled, directory, home)
            except Unresolvable:
                continue


def _runs_us(read: Reading) -> bool:
    """Whether this very program is among the commands."""
    named = any(_is_us([word.value for word in words]) for words in read.commands)
    # `python -m mcp_dispatch` has options of its own in between, or none.
    return named or any(_is_us(run[at:]) for run in read.runs for at in range(len(run)))


def _is_us(words: list[str] | tuple[str, ...]) -> bool:
    name = words[0].rpartition("/")[2]
    if name in ("mcp-dispatch", "mcp_dispatch"):
        return True
    module = "mcp_dispatch" in words or "-mmcp_dispatch" in words
    return name.startswith(("python", "pypy", "uv", "pipx")) and (module or "mcp-dispatch" in words)
