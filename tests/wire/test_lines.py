"""The line reader: independent of the chunks, in linear time and bounded memory."""

import os
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.wire.lines import BoundedLineReader, OverlongLine

_LIMIT = 12


def _create_source(chunks: Iterable[bytes]) -> Callable[[], Awaitable[bytes]]:
    iterator = iter(chunks)

    async def receive() -> bytes:
        return next(iterator, b"")

    return receive


async def _read_all(lines: BoundedLineReader) -> list[bytes | OverlongLine]:
    found: list[bytes | OverlongLine] = []
    while True:
        try:
            found.append(await lines.read_line())
        except anyio.EndOfStream:
            return found


def _split_lines(stream: bytes) -> list[bytes | OverlongLine]:
    found: list[bytes | OverlongLine] = []
    for raw in stream.split(b"\n"):
        line = raw.removesuffix(b"\r")
        if len(line) > _LIMIT:
            found.append(OverlongLine(len(raw), raw[:200]))
        elif line.strip():
            found.append(line)
    return found


_bytes = st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"a", b"bcdef", b"\xff", b"x" * 9]))


@given(_bytes.map(b"".join), st.lists(st.integers(1, 30), min_size=1))
def test_any_chunking_gives_the_lines_that_split_gives(stream: bytes, sizes: list[int]) -> None:
    chunks: list[bytes] = []
    rest = stream
    while rest:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(rest[:size])
        rest = rest[size:]

    found = anyio.run(_read_all, BoundedLineReader(_create_source(chunks), _LIMIT))

    assert found == _split_lines(stream)


async def test_crlf_blank_lines_and_a_missing_last_newline_are_tolerated() -> None:
    lines = BoundedLineReader(_create_source([b"one\r\n\r\n  \n\ntwo\nth", b"ree"]), _LIMIT)

    assert await _read_all(lines) == [b"one", b"two", b"three"]


async def test_a_source_that_raises_at_its_end_ends_the_lines() -> None:
    async def receive() -> bytes:
        raise anyio.EndOfStream

    with pytest.raises(anyio.EndOfStream):
        await BoundedLineReader(receive, _LIMIT).read_line()


async def test_a_line_over_the_limit_is_skipped_and_the_next_delivered() -> None:
    megabytes = [b"x" * 1_000_000] * 300
    lines = BoundedLineReader(_create_source([b'{"id":7,"', *megabytes, b"\nnext\n"]), 1_000_000)

    tracemalloc.start()
    overlong = await lines.read_line()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert overlong == OverlongLine(300_000_009, b'{"id":7,"' + b"x" * 191)
    assert await lines.read_line() == b"next"
    assert peak < 4_000_000


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [1, 5, 100])
async def test_the_limit_counts_the_line_without_its_end(end: bytes, size: int) -> None:
    def chunked(stream: bytes) -> list[bytes]:
        return [stream[at : at + size] for at in range(0, len(stream), size)]

    fits = await _read_all(BoundedLineReader(_create_source(chunked(b"x" * _LIMIT + end)), _LIMIT))
    over = await _read_all(
        BoundedLineReader(_create_source(chunked(b"x" * (_LIMIT + 1) + end)), _LIMIT)
    )

    assert fits == [b"x" * _LIMIT]
    assert [type(line) for line in over] == [OverlongLine]


async def test_a_cancelled_wait_loses_nothing() -> None:
    chunks = iter([b"ha", b"lf\n"])
    arrive = anyio.Event()

    async def receive() -> bytes:
        await arrive.wait()
        return next(chunks)

    lines = BoundedLineReader(receive, _LIMIT)
    with anyio.move_on_after(0):
        await lines.read_line()
    arrive.set()

    assert await lines.read_line() == b"half"


async def _measure_seconds(megabytes: int, chunk: int) -> float:
    size = megabytes * 1_000_000
    lines = BoundedLineReader(
        _create_source([*([b"x" * chunk] * (size // chunk)), b"\n"]), 2 * size
    )
    start = os.times().user
    line = await lines.read_line()
    assert len(line) == size // chunk * chunk if isinstance(line, bytes) else False
    return os.times().user - start


@pytest.mark.parametrize("chunk", [64, 65_536])
async def test_time_is_linear_in_the_length_of_a_line(chunk: int) -> None:
    small, large = (1, 10) if chunk == 64 else (5, 50)

    ratio = min([await _measure_seconds(large, chunk) for _ in range(3)]) / max(
        0.01, min([await _measure_seconds(small, chunk) for _ in range(3)])
    )

    assert ratio < 40  # ten times the bytes; a quadratic reader would need a hundred times
