"""Previews of long texts, and sizes formatted for people."""

import re

PREVIEW_BYTES = 2000

# A terminal would read the text after a truncated color code as a part of the code.
_UNFINISHED_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8})?\Z")


def build_preview(text: str, limit_bytes: int = PREVIEW_BYTES) -> str:
    """Return a prefix of at most `limit_bytes` bytes of UTF-8.

    It ends before the last newline in its second half, if there is one.
    """
    head = _truncate_utf8(text, limit_bytes)
    if len(head) == len(text):
        return text
    newline = head.rfind("\n")
    if newline > 0 and newline >= len(head) // 2:
        return head[:newline]
    return _UNFINISHED_ESCAPE.sub("", head)


def _truncate_utf8(text: str, limit_bytes: int) -> str:
    """Return the longest prefix that fits, cut between characters."""
    head = text[: max(limit_bytes, 0)]
    raw = encode_utf8(head)
    end = max(limit_bytes, 0)
    if len(raw) <= end:
        return head
    while raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end].decode("utf-8", "surrogatepass")


def encode_utf8(text: str) -> bytes:
    """Encode `text`; a lone surrogate, which JSON can contain, is encoded too."""
    return text.encode("utf-8", "surrogatepass")


def format_size(count: int) -> str:
    """Format a number of bytes: `812 bytes`, `36.8KB`, `2MB`."""
    if count < 1024:
        return f"{count} bytes"
    size = float(count)
    for unit in ("KB", "MB"):
        size /= 1024
        if round(size, 1) < 1024:
            return _format_number(size) + unit
    return _format_number(size / 1024) + "GB"


def _format_number(size: float) -> str:
    return f"{size:.1f}".removesuffix(".0")
