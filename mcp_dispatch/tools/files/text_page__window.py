"""Some lines of a text that is fed piece by piece, without ever holding more than is shown."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be shown: `count` lines from line `first`, each up to `width`, `budget` in all.

    Widths and budget are in characters; a `width` of None shows lines whole.
    """

    first: int
    count: int
    width: int | None
    budget: int


class Folded:
    """Text fed piece by piece with a newline after every `width` characters of a longer line."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self.folds = 0

    def fold(self, text: str) -> str:
        if len(text) + self._column <= self._width and "\n" not in text:
            self._column += len(text)
            return text
        lines = text.split("\n")
        shown = [self._line(line, ended=place + 1 < len(lines)) for place, line in enumerate(lines)]
        return "\n".join(shown)

    def _line(self, line: str, *, ended: bool) -> str:
        first = self._width - self._column
        if len(line) <= first:
            self._column = 0 if ended else self._column + len(line)
            return line
        starts = range(first, len(line), self._width)
        pieces = [line[:first], *(line[start : start + self._width] for start in starts)]
        self.folds += len(starts)
        self._column = 0 if ended else len(pieces[-1])
        return "\n".join(pieces)


class Window:
    """Feed the text, then `finish`; `lines` are those in bounds, without their line ends."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: list[str] = []
        self._kept_size = 0
        self._line_size = 0
        self._line_open = False
        self.lines: list[str] = []
        self.cut: list[int] = []
        self.wanted_size = 0
        self.over_budget = False
        self.total = 0

    def feed(self, text: str) -> None:
        start = 0
        while start < len(text):
            if not self._wanted():
                start = self._skip(text, start)
                continue
            end = text.find("\n", start)
            self._extend(text[start:] if end < 0 else text[start:end])
            if end < 0:
                return
            self._end_line()
            start = end + 1

    def finish(self) -> None:
        """The last line need not end in a newline."""
        if self._line_open and self._wanted():
            self._end_line()
        elif self._line_open:
            self.total += 1

    def _wanted(self) -> bool:
        first = self._bounds.first
        return first <= self.total + 1 < first + self._bounds.count

    def _skip(self, text: str, start: int) -> int:
        """Counts lines up to the window, or to the end of `text`."""
        newlines = text.count("\n", start)
        if self.total + 1 > self._bounds.first or self.total + newlines + 1 < self._bounds.first:
            self.total += newlines
            self._line_open = not text.endswith("\n")
            return len(text)
        while self.total + 1 < self._bounds.first:
            start = text.index("\n", start) + 1
            self.total += 1
        self._line_open = False
        return start

    def _extend(self, piece: str) -> None:
        self._line_open = True
        self._line_size += len(piece)
        # One character more than is shown, because a carriage return may come off the end.
        limit = self._bounds.budget if self._bounds.width is None else self._bounds.width
        room = limit + 1 - self._kept_size
        if room > 0 and not self.over_budget:
            self._kept.append(piece[:room])
            self._kept_size += min(room, len(piece))

    def _end_line(self) -> None:
        line = "".join(self._kept)
        size = self._line_size
        if len(line) == size and line.endswith("\r"):
            line, size = line[:-1], size - 1
        self._kept, self._kept_size, self._line_size = [], 0, 0
        self._line_open = False
        self.total += 1
        self._show(line, size)

    def _show(self, line: str, size: int) -> None:
        width = self._bounds.width
        cut = width is not None and size > width
        if width is not None:
            line, size = line[:width], min(size, width)
        # A line costs its newline, too: a file of empty lines is not free.
        self.wanted_size += size + 1
        self.over_budget = self.over_budget or self.wanted_size - 1 > self._bounds.budget
        if not self.over_budget:
            self.lines.append(line)
            if cut:
                self.cut.append(self.total)
