"""Differences between two texts, as a unified diff and as the patch that hooks receive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from mcp_dispatch.model.json import Json

_CONTEXT_LINES = 3
# SequenceMatcher takes quadratic time; larger blocks are compared line by line or as a whole.
_MAX_MATCHED_LINES = 1000
_MAX_DIFF_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines [old_start, old_stop) are replaced by lines [new_start, new_stop), counted from 0."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True, slots=True)
class Hunk:
    """Adjacent changes with their context lines. Starts are counted from 1, as in a diff."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]

    @property
    def heading(self) -> str:
        old, new = f"{self.old_start},{self.old_count}", f"{self.new_start},{self.new_count}"
        return f"@@ -{old} +{new} @@"


def compute_hunks(old: str, new: str) -> tuple[Hunk, ...]:
    before, after = _split_lines(old), _split_lines(new)
    return tuple(
        _build_hunk(before, after, group)
        for group in _group_changes(_compute_changes(before, after))
    )


def format_unified_diff(path: str, hunks: Sequence[Hunk]) -> str:
    """Return the diff as text, truncated after a whole line if it is too long."""
    shown, size = [f"--- {path}", f"+++ {path}"], 0
    diff_lines = [line for hunk in hunks for line in (hunk.heading, *hunk.lines)]
    for position, line in enumerate(diff_lines):
        size += len(line) + 1
        if size > _MAX_DIFF_CHARS:
            shown.append(f"… {len(diff_lines) - position} more lines of this diff are not shown")
            break
        shown.append(line)
    return "\n".join(shown)


def build_structured_patch(hunks: Sequence[Hunk]) -> list[Json]:
    return [
        {
            "oldStart": hunk.old_start,
            "oldLines": hunk.old_count,
            "newStart": hunk.new_start,
            "newLines": hunk.new_count,
            "lines": list(hunk.lines),
        }
        for hunk in hunks
    ]


def _split_lines(text: str) -> list[str]:
    """Return the lines with their line feeds; `splitlines` would split at other characters, too."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _compute_changes(old: list[str], new: list[str]) -> Iterator[LineChange]:
    head = count_common(old, new)
    tail = count_common(old[head:][::-1], new[head:][::-1])
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    for change in _compare_lines(before, after):
        yield LineChange(
            change.old_start + head,
            change.old_stop + head,
            change.new_start + head,
            change.new_stop + head,
        )


def _compare_lines(old: list[str], new: list[str]) -> Iterator[LineChange]:
    if max(len(old), len(new)) <= _MAX_MATCHED_LINES:
        for tag, *place in SequenceMatcher(None, old, new).get_opcodes():
            if tag != "equal":
                yield LineChange(*place)
    elif len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                yield LineChange(number, number + 1, number, number + 1)
    else:
        yield LineChange(0, len(old), 0, len(new))


def count_common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    count = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        count += 1
    return count


def _group_changes(changes: Iterator[LineChange]) -> Iterator[list[LineChange]]:
    group: list[LineChange] = []
    for change in changes:
        if group and change.old_start - group[-1].old_stop > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _build_hunk(old: list[str], new: list[str], group: list[LineChange]) -> Hunk:
    above = min(_CONTEXT_LINES, group[0].old_start)
    old_start, new_start = group[0].old_start - above, group[0].new_start - above
    below = min(_CONTEXT_LINES, len(old) - group[-1].old_stop)
    lines: list[str] = []
    position = old_start
    for change in group:
        lines += _format_lines(" ", old[position : change.old_start])
        lines += _format_lines("-", old[change.old_start : change.old_stop])
        lines += _format_lines("+", new[change.new_start : change.new_stop])
        position = change.old_stop
    lines += _format_lines(" ", old[position : position + below])
    old_count = group[-1].old_stop + below - old_start
    new_count = group[-1].new_stop + below - new_start
    # The position of a side without lines is that of the line before it.
    return Hunk(
        old_start + (1 if old_count else 0),
        old_count,
        new_start + (1 if new_count else 0),
        new_count,
        tuple(lines),
    )


def _format_lines(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line.removesuffix("\n").removesuffix("\r")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
