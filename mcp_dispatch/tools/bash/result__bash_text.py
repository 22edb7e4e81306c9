"""The printed bytes of a command as text of a bounded size."""

import codecs
import re

from mcp_dispatch.processes.output_file import Recording

LAST_LINE_BYTES = 4096
LAST_LINE_CHARACTERS = 200
HEADLINE_CHARACTERS = 80


def shown(recording: Recording, limit: int) -> str:
    """All of it, or its beginning and its end where it has more than `limit` bytes."""
    if recording.size <= limit:
        return decoded(recording.read(0, recording.size))
    half = limit // 2
    head = _whole_characters(recording.read(0, half))
    tail = _without_continuation(recording.read(recording.size - half, half))
    left_out = recording.size - len(head) - len(tail)
    return f"{decoded(head)}\n\n... [{left_out:,} bytes left out] ...\n\n{decoded(tail)}"


def decoded(raw: bytes) -> str:
    """UTF-8 with what is not UTF-8 replaced, and no newline at the end."""
    return raw.decode("utf-8", errors="replace").removesuffix("\n")


def last_line(recording: Recording) -> str:
    """The last line that shows anything, for somebody who waits; empty where there is none."""
    start = max(0, recording.size - LAST_LINE_BYTES)
    text = decoded(recording.read(start, LAST_LINE_BYTES))
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return _printable(lines[-1])[:LAST_LINE_CHARACTERS] if lines else ""


def headline(command: str) -> str:
    """The beginning of a command, on one line, for a list of several."""
    line = " ".join(_printable(command).split())
    return line if len(line) <= HEADLINE_CHARACTERS else f"{line[: HEADLINE_CHARACTERS - 1]}…"


def _whole_characters(raw: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    unfinished, _ = decoder.getstate()
    return raw[: len(raw) - len(unfinished)]


def _without_continuation(raw: bytes) -> bytes:
    start = next((at for at, byte in enumerate(raw[:4]) if byte & 0xC0 != 0x80), 0)
    return raw[start:]


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line).strip()
