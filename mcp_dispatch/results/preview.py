"""The beginning of a long text, cut where a reader expects it, and sizes in words."""

import re

PREVIEW_BYTES = 2000

# A colour code cut in half would swallow the text that follows it.
_UNFINISHED_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8})?\Z")


def build_preview(text: str, limit_bytes: int = PREVIEW_BYTES) -> str:
    """A prefix of at most `limit_bytes` UTF-8 bytes, ending before the last newline in its
    second half where there is one."""
    head = _truncate_utf8(text, limit_bytes)
    if len(head) == len(text):
        return text
    newline = head.rfind("\n")
    if newline > 0 and newline >= len(head) // 2:
        return head[:newline]
    return _UNFINISHED_ESCAPE.sub("", head)


def _truncate_utf8(text: str, limit_bytes: int) -> str:
    """The longest prefix that fits, on a character boundary."""
    head = text[: max(limit_bytes, 0)]
    raw = encode_utf8(head)
    end = max(limit_bytes, 0)
    if len(raw) <= end:
        return head
    while raw[end] & 0xC0 == 0x80:
        end -= 1
    return raw[:end].decode("utf-8", "surrogatepass")


def encode_utf8(text: str) -> bytes:
    """The bytes of `text`; a lone surrogate, which JSON can carry, is kept rather than refused."""
    return text.encode("utf-8", "surrogatepass")


def format_size(count: int) -> str:
    """`count` bytes as a person would say it: `812 bytes`, `36.8KB`, `2MB`."""
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
