"""Decodes and encodes JSON: integers are exact, key order is kept, dubious input is rejected."""

import msgspec

from mcp_dispatch.model.json import Json, JsonObject

MAX_DEPTH = 256
"""Deeper values are rejected, because later code may walk a value recursively."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Undecodable(ValueError):
    """The line is not acceptable JSON. The message gives the reason without quoting the line."""


class Unencodable(ValueError):
    """The value has no JSON form: a lone surrogate, a foreign object, or nested too deep."""


def decode(line: bytes | bytearray | memoryview) -> Json:
    """Return the value of one line. Raises `Undecodable`.

    Rejected are malformed JSON, invalid UTF-8, NaN, numbers outside a double (`1e400`), integers
    over 4300 digits, lone surrogates, and more than `MAX_DEPTH` levels. The last of duplicate keys
    wins. A byte order mark at the start of a line is skipped, because some shells write one.
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
    """Return compact JSON without a newline. NaN, which `decode` never returns, becomes null.

    Raises `Unencodable`.
    """
    try:
        return msgspec.json.encode(message)
    except RecursionError as error:
        raise Unencodable(_describe_depth_limit()) from error
    except (TypeError, ValueError) as error:
        raise Unencodable(f"no JSON form: {error}") from error


def _is_too_deep(value: Json) -> bool:
    # Level by level instead of recursively, so that the check itself cannot overflow the stack.
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
