"""Determines the kind of content of a response, and decodes its text."""

import codecs
import re
from dataclasses import dataclass
from enum import Enum

_ESSENCE = re.compile(r"\s*([A-Za-z0-9.+_-]{1,100}/[A-Za-z0-9.+_-]{1,100})\s*(?:;|$)")
_CHARSET = re.compile(r""";\s*charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)
_META_CHARSET = re.compile(
    rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE
)
_META_SCAN_BYTES = 1024
_HTML_START = re.compile(rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I)

_TEXT_TYPES = frozenset(
    {
        *("json", "x-ndjson", "jsonlines", "xml", "javascript", "x-javascript", "ecmascript"),
        *("yaml", "x-yaml", "toml", "graphql", "sql", "x-sh", "x-httpd-php"),
    }
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Codecs that decode any input in linear time and never return surrogates; Python has others.
_CODECS = frozenset(
    {
        *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "mac-roman"),
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (866, 874, *range(1250, 1259))),
        *("gbk", "gb18030", "big5", "euc_jp", "shift_jis", "cp932", "iso2022_jp", "euc_kr"),
        *("cp949", "big5hkscs"),
    }
)
# As in browsers, these names mean a larger character set.
_SUPERSET_CODECS = {
    **{"ascii": "cp1252", "iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874"},
    **{"tis-620": "cp874", "gb2312": "gbk", "euc_kr": "cp949", "shift_jis": "cp932"},
}


class ContentKind(Enum):
    HTML = "html"
    TEXT = "text"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ContentType:
    """A parsed Content-Type header. `type` is empty if the response has none."""

    type: str
    charset: str | None

    @property
    def kind(self) -> ContentKind:
        main, _, sub = self.type.partition("/")
        if not self.type:
            return ContentKind.UNKNOWN
        if self.type in ("text/html", "application/xhtml+xml"):
            return ContentKind.HTML
        textual = sub in _TEXT_TYPES or sub.endswith(("+json", "+xml", "+yaml"))
        return ContentKind.TEXT if main == "text" or textual else ContentKind.OTHER


def parse_content_type(header: str) -> ContentType:
    essence = _ESSENCE.match(header)
    charset = _CHARSET.search(header)
    return ContentType(
        essence.group(1).lower() if essence else "",
        charset.group(1) if charset else None,
    )


def detect_kind(content_type: ContentType, body: bytes) -> ContentKind:
    """Return the declared kind; if none is declared, guess it from the body."""
    if content_type.kind is not ContentKind.UNKNOWN:
        return content_type.kind
    if _HTML_START.match(body[:_META_SCAN_BYTES]):
        return ContentKind.HTML
    return (
        ContentKind.OTHER
        if b"\0" in body and not body.startswith(_UTF16_BOMS)
        else ContentKind.TEXT
    )


_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decode_text(content_type: ContentType, kind: ContentKind, body: bytes) -> str | None:
    """Decode the body, invalid bytes as `\ufffd`; return None if it is not text."""
    text = _decode(content_type, kind, body)
    return None if "\0" in text else text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(content_type: ContentType, kind: ContentKind, body: bytes) -> str:
    """Use the byte order mark, then the header, then the `<meta>` tag of HTML."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    codec = _find_codec(content_type.charset)
    if codec is None and kind is ContentKind.HTML:
        declared = _META_CHARSET.search(body[:_META_SCAN_BYTES])
        codec = _find_codec(declared.group(1).decode("ascii")) if declared else None
        # The tag was found by reading ASCII, so the page is not in UTF-16.
        codec = "utf-8" if codec is not None and codec.startswith("utf-16") else codec
    if codec is not None:
        return body.decode(codec, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        valid = body.decode("utf-8", "ignore")
        # A few invalid bytes are damaged UTF-8; many mean another encoding.
        mostly = len(valid.encode("utf-8")) * 100 >= len(body) * 99
        return body.decode("utf-8" if mostly and not valid.isascii() else "cp1252", "replace")


def _find_codec(label: str | None) -> str | None:
    if label is None:
        return None
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    name = _SUPERSET_CODECS.get(name, name)
    return name if name in _CODECS else None
