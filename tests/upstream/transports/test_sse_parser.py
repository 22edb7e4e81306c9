"""Server-sent events: independent of chunk boundaries, and bounded in size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.upstream.errors import RequestLost
from mcp_dispatch.upstream.transports.sse_parser import SseEvent, SseParser, StreamPosition

DATA = ("data: one", "data:two", "data", "data: a:b", "data: \u00e9")
OTHERS = (": comment", "id: 7", "id", "retry: 5", "retry: x", "event: x", "other: y")
LINES = st.sampled_from([*DATA, *OTHERS, "", "", ""])
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def parse(*chunks: bytes, limit: int = 1000) -> list[SseEvent]:
    parser = SseParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(st.lists(LINES), ENDS, st.data())
def test_chunk_boundaries_do_not_change_the_events(
    lines: list[str], end: str, data: st.DataObject
) -> None:
    stream = "".join(line + end for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert parse(*pieces) == parse("".join(f"{line}\n" for line in lines).encode())


def test_fields_are_parsed_as_specified() -> None:
    stream = "\ufeff: hello\nevent: endpoint\ndata: a\ndata:  b\nid: 7\nretry: 20\nnew: x\n\n"

    assert parse(stream.encode()) == [SseEvent("endpoint", b"a\n b", "7", 20)]


def test_an_incomplete_last_event_is_dropped() -> None:
    assert parse(b"data: whole\n\ndata: half") == [SseEvent("message", b"whole")]


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 2000, b"data: 12345678\n" * 200, b":" * 2000]
)
def test_an_endless_event_is_refused_at_the_limit(stream: bytes) -> None:
    with pytest.raises(RequestLost):
        parse(*(stream[at : at + 100] for at in range(0, len(stream), 100)))


@pytest.mark.parametrize(
    ("given", "kept"), [("7", "7"), ("", None), ("\u4e16", None), ("a\x01", None), ("a b", "a b")]
)
def test_a_stream_position_keeps_only_ids_that_a_header_can_hold(
    given: str, kept: str | None
) -> None:
    mark = StreamPosition(id="before")

    mark.record_event(SseEvent("message", b"", given))

    assert mark.id == kept
