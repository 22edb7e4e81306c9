"""Removals that no rule and no hook can allow: the root, the home, the workspace itself."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_dispatch.fs.resolve import normalize_lexically
from mcp_dispatch.policy.commands.expand import ParsedCommand
from mcp_dispatch.policy.commands.file_access import expand_home
from mcp_dispatch.policy.commands.wrappers import get_program_name
from mcp_dispatch.shell.ast import EXPANSION

_REMOVERS = frozenset({"rm", "rmdir"})


def find_critical_removal(
    command: ParsedCommand,
    directories: Sequence[Path],
    working_directories: Sequence[Path],
    home: Path,
) -> str | None:
    """Return the critical path that a command removes when it runs in one of `directories`."""
    for target in _list_removed_paths(command, home):
        for directory in directories or (Path("/"),):
            if _is_critical(target, directory, working_directories, home):
                return target.replace(EXPANSION, "*")
    return None


def _list_removed_paths(command: ParsedCommand, home: Path) -> Iterable[str]:
    for words in command.commands:
        if get_program_name(words) in _REMOVERS:
            yield from _select_operands([expand_home(word, home) for word in words[1:]])
    for run in command.token_runs:
        for index, token in enumerate(run):
            if token in _REMOVERS:
                yield from _select_operands(
                    [_expand_tilde(other, home) for other in run[index + 1 :]]
                )


def _select_operands(words: Iterable[str]) -> list[str]:
    return [word for word in words if word and not word.startswith("-")]


def _expand_tilde(token: str, home: Path) -> str:
    return f"{home}{token[1:]}" if token == "~" or token.startswith("~/") else token


def _is_critical(
    target: str, directory: Path, working_directories: Sequence[Path], home: Path
) -> bool:
    first, *rest = target.split("/")
    if EXPANSION in first and rest and rest[-1] in ("", EXPANSION):
        return True  # `$VAR/` and `$VAR/*`: the variable may be empty
    base, slash, last = target.rstrip("/").rpartition("/")
    if last == EXPANSION:
        path = _resolve_target(base or slash or ".", directory)
        return EXPANSION not in base and _contains_critical_path(path, working_directories, home)
    if EXPANSION in target:
        return False
    path = _resolve_target(target or "/", directory)
    return any(
        _is_or_contains(path, critical) for critical in (home, directory, *working_directories)
    ) or _is_top(path)


def _resolve_target(target: str, directory: Path) -> Path:
    return normalize_lexically(directory / target)


def _is_top(path: Path) -> bool:
    """Return whether the path is the root or a child of it, also under `/private` of macOS."""
    top = Path("/")
    return path == top or path.parent in (top, Path("/private"))


def _is_or_contains(path: Path, critical: Path) -> bool:
    return critical.is_relative_to(path)


def _contains_critical_path(path: Path, working_directories: Sequence[Path], home: Path) -> bool:
    """Return whether emptying the directory is as critical as removing it."""
    added_directories = working_directories[1:]
    contains_work = any(
        path != critical and critical.is_relative_to(path) for critical in working_directories
    )
    return _is_top(path) or path == home or path in added_directories or contains_work
