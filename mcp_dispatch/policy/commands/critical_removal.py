"""Removals that no rule and no hook may wave through: the root, the home, the workspace itself."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_dispatch.fs.resolve import without_dots
from mcp_dispatch.policy.commands.expand import Reading
from mcp_dispatch.policy.commands.file_access import spelled
from mcp_dispatch.policy.commands.wrappers import program
from mcp_dispatch.shell.ast import EXPANSION

_REMOVERS = frozenset({"rm", "rmdir"})


def critical_removal(
    reading: Reading, directories: Sequence[Path], working: Sequence[Path], home: Path
) -> str | None:
    """The critical path that the text removes, as it is written. `directories`: where it runs."""
    for target in _removed(reading, home):
        for directory in directories or (Path("/"),):
            if _is_critical(target, directory, working, home):
                return target.replace(EXPANSION, "*")
    return None


def _removed(reading: Reading, home: Path) -> Iterable[str]:
    for words in reading.commands:
        if program(words) in _REMOVERS:
            yield from _operands([spelled(word, home) for word in words[1:]])
    for run in reading.runs:
        for at, token in enumerate(run):
            if token in _REMOVERS:
                yield from _operands([_tilde(other, home) for other in run[at + 1 :]])


def _operands(words: Iterable[str]) -> list[str]:
    return [word for word in words if word and not word.startswith("-")]


def _tilde(token: str, home: Path) -> str:
    return f"{home}{token[1:]}" if token == "~" or token.startswith("~/") else token


def _is_critical(target: str, directory: Path, working: Sequence[Path], home: Path) -> bool:
    first, *rest = target.split("/")
    if EXPANSION in first and rest and rest[-1] in ("", EXPANSION):
        return True  # `$VAR/` and `$VAR/*`: the variable may be empty
    base, slash, last = target.rstrip("/").rpartition("/")
    if last == EXPANSION:
        place = _place(base or slash or ".", directory)
        return EXPANSION not in base and _holds_too_much(place, working, home)
    if EXPANSION in target:
        return False
    place = _place(target or "/", directory)
    return any(_is_or_holds(place, kept) for kept in (home, directory, *working)) or _is_top(place)


def _place(target: str, directory: Path) -> Path:
    return without_dots(directory / target)


def _is_top(place: Path) -> bool:
    """The root or one of its children, also under the `/private` of macOS."""
    top = Path("/")
    return place == top or place.parent in (top, Path("/private"))


def _is_or_holds(place: Path, kept: Path) -> bool:
    return kept.is_relative_to(place)


def _holds_too_much(place: Path, working: Sequence[Path], home: Path) -> bool:
    """Whether emptying `place` is as bad as removing it."""
    added = working[1:]
    holds_work = any(place != kept and kept.is_relative_to(place) for kept in working)
    return _is_top(place) or place == home or place in added or holds_work
