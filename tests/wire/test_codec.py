"""The codec: accepted values round-trip exactly, others are rejected with our messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.json import Json
from mcp_dispatch.wire.codec import MAX_DEPTH, Undecodable, Unencodable, decode, encode

_text = st.text(st.characters(exclude_categories=("Cs",)))
_values: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner) | st.dictionaries(_text, inner),
)


@given(st.dictionaries(_text, _values))
def test_what_is_written_reads_back_as_the_same_value_in_the_same_order(
    message: dict[str, Json],
) -> None:
    line = encode(message)

    back = decode(line)

    assert back == message
    assert repr(back) == repr(message)
    assert b"\n" not in line


def test_an_integer_of_thirty_digits_keeps_every_digit() -> None:
    line = b'{"n":123456789012345678901234567890,"m":9007199254740993}'

    assert encode({"v": decode(line)}) == b'{"v":' + line + b"}"


def test_the_last_of_duplicate_keys_wins() -> None:
    assert decode(b'{"path":"/safe","path":"/etc/shadow"}') == {"path": "/etc/shadow"}


def test_a_byte_order_mark_before_a_line_is_skipped() -> None:
    assert decode(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_decoded(kind: type[bytes]) -> None:
    assert decode(kind(b"[1]")) == [1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not valid JSON: "),
        (b'{"a":', "not valid JSON: "),
        (b"[1] x", "not valid JSON: "),
        (b"NaN", "not valid JSON: "),
        (b"-Infinity", "not valid JSON: "),
        (b"1e400", "not valid JSON: Number out of range"),
        (b"1" * 5000, "not valid JSON: Integer value out of range"),
        (b'"\\ud800"', "not valid JSON: "),
        (b'"\x00"', "not valid JSON: "),
        (b'"\xff"', "not valid UTF-8: invalid start byte"),
        (b'"\xed\xa0\x80"', "not valid UTF-8: invalid continuation byte"),
        (b"[" * 1_000_000, "nested deeper than 256 levels"),
        (b"[" * 257 + b"]" * 257, "nested deeper than 256 levels"),
        (b'{"a":' * 257 + b"1" + b"}" * 257, "nested deeper than 256 levels"),
    ],
    ids=lambda value: value[:12] if isinstance(value, bytes) else "",
)
def test_a_line_that_could_not_be_forwarded_is_rejected(line: bytes, reason: str) -> None:
    with pytest.raises(Undecodable) as refusal:
        decode(line)

    assert str(refusal.value).startswith(reason)


def test_the_deepest_value_and_a_wide_one_are_accepted() -> None:
    deepest, wide = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, b"[" + b"[]," * 1000 + b"[]]"

    assert encode({"v": decode(deepest)}) == b'{"v":' + deepest + b"}"
    assert decode(wide) == [[] for _ in range(1001)]


def _build_nested(levels: int) -> Json:
    value: Json = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("\ud800", "no JSON form: "),
        (10**5000, "no JSON form: "),
        (_build_nested(100_000), "nested deeper than 256 levels"),
    ],
    ids=["lone surrogate", "five thousand digits", "too deep"],
)
def test_a_value_without_a_json_form_is_not_written(value: Json, reason: str) -> None:
    with pytest.raises(Unencodable) as refusal:
        encode({"v": value})

    assert str(refusal.value).startswith(reason)
