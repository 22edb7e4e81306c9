"""What a search found, as the model reads it and as hooks see it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.tools.search.ripgrep_json import (
    MOST_CHARACTERS,
    CountReader,
    FileReader,
    Line,
    LineReader,
)
from mcp_dispatch.tools.search.ripgrep_request import Request
from mcp_dispatch.tools.search.root import Place, shown_from

PAST_THE_END = "No entries at this offset"


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` with what to say after it, and the structured form of both."""

    text: str
    notes: tuple[str, ...]
    response: JsonObject


@dataclass(frozen=True, slots=True)
class View:
    """Who looks at what: names are shown as seen from `directory`."""

    request: Request
    place: Place
    directory: Path | None

    def name(self, relative: str) -> str:
        return shown_from(self.directory, self.place.named(relative))

    def page(self, names: Sequence[str]) -> slice:
        """From the offset on, as many as were asked for and as one answer may hold."""
        start, limit = self.request.offset, self.request.limit
        stop, characters = min(start, len(names)), 0
        while stop < len(names) and (limit is None or stop - start < limit):
            characters += len(names[stop])
            if characters > MOST_CHARACTERS:
                break
            stop += 1
        return slice(start, stop)

    def paging(self, *, more: bool) -> JsonObject:
        """Only what had an effect."""
        applied: JsonObject = {}
        if more and self.request.limit is not None:
            applied["appliedLimit"] = self.request.limit
        if self.request.offset:
            applied["appliedOffset"] = self.request.offset
        return applied


def files(view: View, reader: FileReader) -> Answer:
    hits = [hit.relative for hit in sorted(reader.hits)]
    page, total = view.page(hits), len(hits)
    names = [view.name(relative) for relative in hits[page]]
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "totalFiles": total,
        **view.paging(more=page.stop < total),
    }
    if not total:
        return Answer("No files found", (), response)
    if not names:
        return Answer(PAST_THE_END, (), response)
    head = f"Found {_files(total)}{_shown(page, total)}"
    return Answer("\n".join([head, *names]), _onward(page.stop, page.stop < total), response)


def counts(view: View, reader: CountReader) -> Answer:
    every = sorted(reader.counts)
    page, total = view.page([file.relative for file in every]), len(every)
    shown = every[page]
    names = [view.name(file.relative) for file in shown]
    content = "\n".join(f"{name}:{file.matches}" for name, file in zip(names, shown, strict=True))
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "content": content,
        "numMatches": reader.total,
        "totalFiles": total,
        **view.paging(more=page.stop < total),
    }
    if not total:
        return Answer("No matches found", (), response)
    if not names:
        return Answer(PAST_THE_END, (), response)
    matches = f"{reader.total:,} {'match' if reader.total == 1 else 'matches'}"
    tail = f"Found {matches} in {_files(total)}{_shown(page, total)}"
    return Answer(f"{content}\n\n{tail}", _onward(page.stop, page.stop < total), response)


def content(view: View, reader: LineReader) -> Answer:
    names = list(dict.fromkeys(view.name(line.relative) for line in reader.lines))
    text = "\n".join(_rendered(view, reader.lines))
    response: JsonObject = {
        "mode": view.request.mode.value,
        "numFiles": len(names),
        "filenames": [*names],
        "content": text,
        "numLines": len(reader.lines),
        **view.paging(more=reader.more),
    }
    if not reader.more:
        response["totalLines"] = reader.total
    if reader.binary and view.place.is_file and reader.found:
        names = [view.name("")]
        matches: JsonObject = {"content": "", "numLines": 0, "numFiles": 1, "filenames": [*names]}
        return Answer(f"Binary file {names[0]} matches", (), {**response, **matches})
    if not reader.total:
        return Answer("No matches found", (), response)
    if not reader.lines:
        return Answer(PAST_THE_END, (), response)
    end = view.request.offset + len(reader.lines)
    return Answer(text, _onward(end, reader.more), response)


def _rendered(view: View, lines: list[Line]) -> Iterator[str]:
    previous: Line | None = None
    for line in lines:
        if view.request.has_context and previous is not None and not _follows(previous, line):
            yield "--"
        mark = ":" if line.matches else "-"
        # A file that was named needs no name before each of its lines.
        name = "" if view.place.is_file else f"{view.name(line.relative)}{mark}"
        number = f"{line.number}{mark}" if view.request.numbered and line.number else ""
        yield f"{name}{number}{line.text}"
        previous = line


def _follows(previous: Line, line: Line) -> bool:
    return (
        previous.relative == line.relative
        and previous.number is not None
        and line.number in (previous.number, previous.number + 1)
    )


def _files(count: int) -> str:
    return f"{count:,} {'file' if count == 1 else 'files'}"


def _shown(page: slice, total: int) -> str:
    whole = page.start == 0 and page.stop == total
    return "" if whole else f", of which {page.start + 1}-{page.stop} are shown"


def _onward(end: int, more: bool) -> tuple[str, ...]:
    return (f"(There is more: go on with offset {end}, or narrow the search.)",) if more else ()
