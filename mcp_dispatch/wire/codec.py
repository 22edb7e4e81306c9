"""JSON text to values and back: integers exact, key order kept, oddities refused."""

import msgspec

from mcp_dispatch.model.json import Json, JsonObject

MAX_DEPTH = 256
"""Deeper values are refused: whoever walks a value later may do so recursively."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Undecodable(ValueError):
    """A line that is not JSON we accept; the text says why, without quoting the line."""


class Unencodable(ValueError):
    """A value that has no JSON form: a lone surrogate, a foreign object, too deep."""


def decode(line: bytes | bytearray | memoryview) -> Json:
    """The value of one line.

    Refused: malformed JSON, invalid UTF-8, NaN, numbers outside a double (`1e400`), integers
    over 4300 digits, lone surrogates, more than `MAX_DEPTH` levels. Of duplicate keys the last
    stands. A byte order mark at the start of any line is skipped: some shells put one in front.
    """
    text = bytes(line).removeprefix(_BYTE_ORDER_MARK)
    try:
        value: Json = msgspec.json.decode(text)
    except UnicodeDecodeError as error:
        raise Undecodable(f"not valid UTF-8: {error.reason}") from error
    except msgspec.DecodeError as error:
        raise Undecodable(f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise Undecodable(_describe_depth_limit()) from error
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_too_deep(value):
        raise Undecodable(_describe_depth_limit())
    return value


def encode(message: JsonObject) -> bytes:
    """Compact JSON without a newline. A NaN, which `decode` never gives, is written as null."""
    try:
        return msgspec.json.encode(message)
    except RecursionError as error:
        raise Unencodable(_describe_depth_limit()) from error
    except (TypeError, ValueError) as error:
        raise Unencodable(f"no JSON form: {error}") from error


def _is_too_deep(value: Json) -> bool:
    # Level by level rather than recursively, so that the check itself cannot run out of stack.
    level = _filter_containers([value])
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [inner for outer in level for inner in _filter_containers(_list_members(outer))]
    return bool(level)


def _list_members(container: "list[Json] | dict[str, Json]") -> "list[Json]":
    return list(container.values()) if isinstance(container, dict) else container


def _filter_containers(values: "list[Json]") -> "list[list[Json] | dict[str, Json]]":
    return [value for value in values if isinstance(value, (list, dict))]


def _describe_depth_limit() -> str:
    return f"nested deeper than {MAX_DEPTH} levels"
