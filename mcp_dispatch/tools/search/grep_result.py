"""The results of a Grep call, as text for the model and as the response for hooks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.tools.search.ripgrep_json import (
    MAX_PAGE_CHARS,
    CountReader,
    FileReader,
    GrepLine,
    LineReader,
    RipgrepReader,
)
from mcp_dispatch.tools.search.ripgrep_request import GrepOutputMode, GrepRequest
from mcp_dispatch.tools.search.root import SearchFilter, SearchRoot, format_relative_path

OFFSET_PAST_END = "No entries at this offset"


@dataclass(frozen=True, slots=True)
class GrepAnswer:
    """`text` and the `notes` after it, and the structured response."""

    text: str
    notes: tuple[str, ...]
    response: JsonObject


@dataclass(frozen=True, slots=True)
class GrepView:
    """What the results depend on. Paths are shown relative to `directory`."""

    request: GrepRequest
    root: SearchRoot
    directory: Path | None

    def format_name(self, relative: str) -> str:
        return format_relative_path(self.directory, self.root.to_given_path(relative))

    def select_page(self, names: Sequence[str]) -> slice:
        """Return the part from the offset on that fits the requested limit and one result."""
        start, limit = self.request.offset, self.request.limit
        stop, characters = min(start, len(names)), 0
        while stop < len(names) and (limit is None or stop - start < limit):
            characters += len(names[stop])
            if characters > MAX_PAGE_CHARS:
                break
            stop += 1
        return slice(start, stop)

    def build_paging(self, *, has_more: bool) -> JsonObject:
        """Return the limit and the offset, if they had an effect."""
        applied: JsonObject = {}
        if has_more and self.request.limit is not None:
            applied["appliedLimit"] = self.request.limit
        if self.request.offset:
            applied["appliedOffset"] = self.request.offset
        return applied


def create_reader(request: GrepRequest, search_filter: SearchFilter) -> RipgrepReader:
    match request.mode:
        case GrepOutputMode.FILES:
            return FileReader(search_filter)
        case GrepOutputMode.COUNT:
            return CountReader(search_filter)
        case GrepOutputMode.CONTENT:
            return LineReader(search_filter, request)


def build_answer(view: GrepView, reader: RipgrepReader) -> GrepAnswer:
    """Return what a reader of `create_reader` has collected."""
    if isinstance(reader, LineReader):
        return _render_content(view, reader)
    if isinstance(reader, CountReader):
        answer = _render_counts(view, reader)
    else:
        assert isinstance(reader, FileReader)
        answer = _render_files(view, reader)
    if not reader.is_full:
        return answer
    overflow = "(The search was ended here: too many files match. Narrow it.)"
    return replace(answer, notes=(*answer.notes, overflow))


def _render_files(view: GrepView, reader: FileReader) -> GrepAnswer:
    hits = [hit.relative for hit in sorted(reader.entries)]
    page, total = view.select_page(hits), len(hits)
    names = [view.format_name(relative) for relative in hits[page]]
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "totalFiles": total,
        **view.build_paging(has_more=page.stop < total),
    }
    if not total:
        return GrepAnswer("No files found", (), response)
    if not names:
        return GrepAnswer(OFFSET_PAST_END, (), response)
    head = f"Found {_format_file_count(total)}{_describe_range(page, total)}"
    return GrepAnswer(
        "\n".join([head, *names]), _suggest_next_page(page.stop, page.stop < total), response
    )


def _render_counts(view: GrepView, reader: CountReader) -> GrepAnswer:
    files = sorted(reader.entries)
    page, total = view.select_page([file.relative for file in files]), len(files)
    shown = files[page]
    names = [view.format_name(file.relative) for file in shown]
    content = "\n".join(f"{name}:{file.matches}" for name, file in zip(names, shown, strict=True))
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "content": content,
        "numMatches": reader.total,
        "totalFiles": total,
        **view.build_paging(has_more=page.stop < total),
    }
    if not total:
        return GrepAnswer("No matches found", (), response)
    if not names:
        return GrepAnswer(OFFSET_PAST_END, (), response)
    matches = f"{reader.total:,} {'match' if reader.total == 1 else 'matches'}"
    tail = f"Found {matches} in {_format_file_count(total)}{_describe_range(page, total)}"
    return GrepAnswer(
        f"{content}\n\n{tail}", _suggest_next_page(page.stop, page.stop < total), response
    )


def _render_content(view: GrepView, reader: LineReader) -> GrepAnswer:
    names = list(dict.fromkeys(view.format_name(line.relative) for line in reader.lines))
    text = "\n".join(_render_lines(view, reader.lines))
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "content": text,
        "numLines": len(reader.lines),
        **view.build_paging(has_more=reader.has_more),
    }
    if not reader.has_more:
        response["totalLines"] = reader.total
    if reader.is_binary and view.root.is_file and reader.has_results:
        names = [view.format_name("")]
        matches: JsonObject = {"content": "", "numLines": 0, "numFiles": 1, "filenames": [*names]}
        return GrepAnswer(f"Binary file {names[0]} matches", (), {**response, **matches})
    if not reader.total:
        return GrepAnswer("No matches found", (), response)
    if not reader.lines:
        return GrepAnswer(OFFSET_PAST_END, (), response)
    end = view.request.offset + len(reader.lines)
    return GrepAnswer(text, _suggest_next_page(end, reader.has_more), response)


def _render_lines(view: GrepView, lines: list[GrepLine]) -> Iterator[str]:
    previous: GrepLine | None = None
    for line in lines:
        if view.request.has_context and previous is not None and not _is_next_line(previous, line):
            yield "--"
        mark = ":" if line.is_match else "-"
        # If the call names a single file, its lines need no file name.
        name = "" if view.root.is_file else f"{view.format_name(line.relative)}{mark}"
        number = f"{line.number}{mark}" if view.request.line_numbers and line.number else ""
        yield f"{name}{number}{line.text}"
        previous = line


def _is_next_line(previous: GrepLine, line: GrepLine) -> bool:
    return (
        previous.relative == line.relative
        and previous.number is not None
        and line.number in (previous.number, previous.number + 1)
    )


def _format_file_count(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"


def _describe_range(page: slice, total: int) -> str:
    whole = page.start == 0 and page.stop == total
    return "" if whole else f", of which {page.start + 1}-{page.stop} are shown"


def _suggest_next_page(end: int, has_more: bool) -> tuple[str, ...]:
    return (f"(There is more: go on with offset {end}, or narrow the search.)",) if has_more else ()
