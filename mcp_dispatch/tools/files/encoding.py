"""Bytes of a file to text and back, so that what nobody changed comes back byte for byte."""

import codecs
from dataclasses import dataclass
from typing import Protocol

_HEAD = 8192
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@dataclass(frozen=True, slots=True)
class Encoding:
    codec: str
    mark: bytes = b""


UTF_8 = Encoding("utf-8")
_MARKED = (
    Encoding("utf-8", codecs.BOM_UTF8),
    Encoding("utf-16-le", codecs.BOM_UTF16_LE),
    Encoding("utf-16-be", codecs.BOM_UTF16_BE),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text. Where `sound` is false, bytes that are no UTF-8 stand as lone surrogates."""

    text: str
    encoding: Encoding
    sound: bool = True

    @property
    def shown(self) -> str:
        return self.text if self.sound else shown(self.text)

    def encode(self, text: str) -> bytes:
        """`text` as this document's file would hold it. Raises `UnicodeEncodeError`."""
        errors = "strict" if self.sound else "surrogateescape"
        unmarked = text.removeprefix("\ufeff") if self.encoding.mark else text
        return self.encoding.mark + unmarked.encode(self.encoding.codec, errors)


NEW_DOCUMENT = Document("", UTF_8)


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
        self._to_skip = len(encoding.mark)
        self.lossy = False

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        unmarked, self._to_skip = piece[self._to_skip :], max(0, self._to_skip - len(piece))
        state = self._decoder.getstate()
        try:
            return self._decoder.decode(unmarked, final)
        except UnicodeDecodeError:
            self.lossy = True
            self._decoder = self._codec("replace")
            self._decoder.setstate(state)
            return self._decoder.decode(unmarked, final)


def encoding_of(head: bytes) -> Encoding | None:
    """The encoding that the first bytes of a file tell of; None for a file that is not text."""
    encoding = _encoding_by_mark(head)
    return None if encoding == UTF_8 and b"\0" in head[:_HEAD] else encoding


def document_of(content: bytes) -> Document | None:
    """The whole of a file as text; None where its UTF-16 is broken or it is UTF-32."""
    encoding = _encoding_by_mark(content)
    if encoding is None:
        return None
    body = content[len(encoding.mark) :]
    try:
        return Document(body.decode(encoding.codec), encoding)
    except UnicodeDecodeError:
        if encoding.codec != UTF_8.codec:
            return None
    return Document(body.decode(encoding.codec, "surrogateescape"), encoding, sound=False)


def _encoding_by_mark(head: bytes) -> Encoding | None:
    if head.startswith(_UTF32_MARKS):
        return None
    return next((each for each in _MARKED if head.startswith(each.mark)), UTF_8)


def shown(text: str) -> str:
    """`text` fit for JSON: what stands for a byte that is no UTF-8 becomes U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
