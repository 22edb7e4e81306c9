"""Bytes of a file to text and back, so that what nobody changed comes back byte for byte."""

import codecs
from dataclasses import dataclass
from typing import Protocol

_SNIFF_BYTES = 8192
_UTF32_BOMS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@dataclass(frozen=True, slots=True)
class Encoding:
    codec: str
    bom: bytes = b""


UTF_8 = Encoding("utf-8")
_BOM_ENCODINGS = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A file's text. Where `sound` is false, bytes that are no UTF-8 stand as lone surrogates."""

    text: str
    encoding: Encoding
    is_valid: bool = True

    @property
    def display_text(self) -> str:
        return self.text if self.is_valid else replace_invalid_bytes(self.text)

    def encode(self, text: str) -> bytes:
        """`text` as this document's file would hold it. Raises `UnicodeEncodeError`."""
        errors = "strict" if self.is_valid else "surrogateescape"
        unmarked = text.removeprefix("\ufeff") if self.encoding.bom else text
        return self.encoding.bom + unmarked.encode(self.encoding.codec, errors)


NEW_DOCUMENT = TextDocument("", UTF_8)


class Decoder(Protocol):
    """The part of `codecs.IncrementalDecoder` we use."""

    def decode(self, input: bytes, final: bool = False, /) -> str: ...
    def getstate(self) -> tuple[bytes, int]: ...
    def setstate(self, state: tuple[bytes, int], /) -> None: ...


class TextStream:
    """Decodes a file piece by piece. `lossy` once a piece did not fit the encoding."""

    def __init__(self, encoding: Encoding) -> None:
        self._codec = codecs.getincrementaldecoder(encoding.codec)
        self._decoder: Decoder = self._codec("strict")
        self._bom_bytes_left = len(encoding.bom)
        self.lossy = False

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        unmarked, self._bom_bytes_left = (
            piece[self._bom_bytes_left :],
            max(0, self._bom_bytes_left - len(piece)),
        )
        state = self._decoder.getstate()
        try:
            return self._decoder.decode(unmarked, final)
        except UnicodeDecodeError:
            self.lossy = True
            self._decoder = self._codec("replace")
            self._decoder.setstate(state)
            return self._decoder.decode(unmarked, final)


def detect_encoding(head: bytes) -> Encoding | None:
    """The encoding that the first bytes of a file tell of; None for a file that is not text."""
    encoding = _detect_bom_encoding(head)
    return None if encoding == UTF_8 and b"\0" in head[:_SNIFF_BYTES] else encoding


def decode_document(content: bytes) -> TextDocument | None:
    """The whole of a file as text; None where its UTF-16 is broken or it is UTF-32."""
    encoding = _detect_bom_encoding(content)
    if encoding is None:
        return None
    body = content[len(encoding.bom) :]
    try:
        return TextDocument(body.decode(encoding.codec), encoding)
    except UnicodeDecodeError:
        if encoding.codec != UTF_8.codec:
            return None
    return TextDocument(body.decode(encoding.codec, "surrogateescape"), encoding, is_valid=False)


def _detect_bom_encoding(head: bytes) -> Encoding | None:
    if head.startswith(_UTF32_BOMS):
        return None
    return next((each for each in _BOM_ENCODINGS if head.startswith(each.bom)), UTF_8)


def replace_invalid_bytes(text: str) -> str:
    """`text` fit for JSON: what stands for a byte that is no UTF-8 becomes U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
