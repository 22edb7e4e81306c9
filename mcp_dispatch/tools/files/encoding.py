"""Detection of a file's format by its first bytes, and lossless conversion of text files."""

import codecs
import re
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
    """The text of a file.

    If it is not valid UTF-8, lone surrogates stand for the invalid bytes (`surrogateescape`), so
    that unchanged parts are written back byte for byte.
    """

    text: str
    encoding: Encoding
    is_valid: bool = True

    @property
    def display_text(self) -> str:
        return self.text if self.is_valid else replace_invalid_bytes(self.text)

    def encode(self, text: str) -> bytes:
        """Return `text` in the encoding of this document. Raise `UnicodeEncodeError`."""
        errors = "strict" if self.is_valid else "surrogateescape"
        without_bom = text.removeprefix("\ufeff") if self.encoding.bom else text
        return self.encoding.bom + without_bom.encode(self.encoding.codec, errors)


NEW_DOCUMENT = TextDocument("", UTF_8)


class Decoder(Protocol):
    """The part of `codecs.IncrementalDecoder` that is used here."""

    def decode(self, input: bytes, final: bool = False, /) -> str: ...
    def getstate(self) -> tuple[bytes, int]: ...
    def setstate(self, state: tuple[bytes, int], /) -> None: ...


class TextStream:
    """Decodes a file in chunks. `lossy` is set once a chunk was invalid in the encoding."""

    def __init__(self, encoding: Encoding) -> None:
        self._codec = codecs.getincrementaldecoder(encoding.codec)
        self._decoder: Decoder = self._codec("strict")
        self._bom_bytes_left = len(encoding.bom)
        self.lossy = False

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        without_bom, self._bom_bytes_left = (
            piece[self._bom_bytes_left :],
            max(0, self._bom_bytes_left - len(piece)),
        )
        state = self._decoder.getstate()
        try:
            return self._decoder.decode(without_bom, final)
        except UnicodeDecodeError:
            self.lossy = True
            self._decoder = self._codec("replace")
            self._decoder.setstate(state)
            return self._decoder.decode(without_bom, final)


def detect_encoding(head: bytes) -> Encoding | None:
    """Return the encoding of a file by its first bytes, or None for a binary file."""
    encoding = _detect_bom_encoding(head)
    return None if encoding == UTF_8 and b"\0" in head[:_SNIFF_BYTES] else encoding


def decode_document(content: bytes) -> TextDocument | None:
    """Decode a whole file; return None for UTF-32 and for invalid UTF-16."""
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
    """Replace the surrogates that stand for invalid bytes by U+FFFD, so that JSON can hold it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


SIGNATURE_BYTES = 64
"""Bytes at the start of a file that are enough to detect an image format."""

# Without a NUL in its first fields, a "GIF" is a text that begins with these letters.
_IMAGE_SIGNATURES = {
    "PNG": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "JPEG": re.compile(rb"\xff\xd8\xff"),
    "GIF": re.compile(rb"GIF8[79]a.{0,6}\0", re.DOTALL),
    "WEBP": re.compile(rb"RIFF.{4}WEBPVP8[ LX]", re.DOTALL),
    "BMP": re.compile(rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}", re.DOTALL),
    "TIFF": re.compile(rb"II[\x2a\x2b]\0|MM\0[\x2a\x2b]"),
}


def detect_image_format(head: bytes) -> str | None:
    """Return the image format by the first bytes of a file; its name does not matter."""
    for name, signature in _IMAGE_SIGNATURES.items():
        if signature.match(head):
            return name
    return None
