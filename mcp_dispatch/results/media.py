"""Images, audio and blobs in content blocks, and how they are decoded to files."""

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.json import Json
from mcp_dispatch.results.store import ContentSource

_CHUNK_CHARS = 1 << 20  # a multiple of four, so that each piece of base64 decodes by itself

_SUFFIXES = {
    "application/epub+zip": ".epub",
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/msword": ".doc",
    "application/pdf": ".pdf",
    "application/vnd.ms-excel": ".xls",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/x-tar": ".tar",
    "application/xml": ".xml",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/x-wav": ".wav",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/heic": ".heic",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}
_MAGIC_BYTES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"%PDF-", "application/pdf"),
    (rb"PK\x03\x04", "application/zip"),
    (rb"\x1f\x8b", "application/gzip"),
    (rb"OggS", "audio/ogg"),
    (rb"fLaC", "audio/flac"),
    (rb"ID3|\xff[\xfb\xf3\xf2]", "audio/mpeg"),
)
_UNKNOWN_MIME_TYPE = "application/octet-stream"
MODEL_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True, slots=True)
class BlockMedia:
    """Base64 data of a block. `mime_type` is one that we know; `is_image` if models can view it."""

    data: str
    mime_type: str
    is_image: bool

    @property
    def size(self) -> int:
        """The number of bytes after decoding."""
        return len(self.data) * 3 // 4

    @property
    def suffix(self) -> str:
        return _SUFFIXES.get(self.mime_type, ".bin")

    def as_decoded_source(self) -> ContentSource:
        """Return a source that raises `binascii.Error` when invalid base64 is read."""
        return lambda: _decode_base64(self.data)


def extract_media(block: Json) -> BlockMedia | None:
    """Return the data of an image block, an audio block or an embedded blob."""
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    carrier, key = (block.get("resource"), "blob") if kind == "resource" else (block, "data")
    if kind not in ("image", "audio", "resource") or not isinstance(carrier, dict):
        return None
    data = carrier.get(key)
    if not isinstance(data, str):
        return None
    mime_type = _detect_mime_type(carrier.get("mimeType"), data)
    return BlockMedia(data, mime_type, kind == "image" and mime_type in MODEL_IMAGE_TYPES)


def guess_mime_type(path: Path) -> str:
    """Return the MIME type of a stored result by its suffix."""
    return next(
        (known for known, suffix in _SUFFIXES.items() if suffix == path.suffix), _UNKNOWN_MIME_TYPE
    )


def _detect_mime_type(declared: Json, data: str) -> str:
    """Return the declared type if we know it, otherwise the type that the first bytes indicate.

    The type decides the suffix of a file, so no other text from a server may be used.
    """
    plain = declared.partition(";")[0].strip().lower() if isinstance(declared, str) else ""
    if plain in _SUFFIXES:
        return plain
    try:
        head = binascii.a2b_base64(data[:64])
    except (binascii.Error, ValueError):
        return _UNKNOWN_MIME_TYPE
    for pattern, known in _MAGIC_BYTES:
        if re.match(pattern, head, re.DOTALL):
            return known
    return _UNKNOWN_MIME_TYPE


def _decode_base64(data: str) -> Iterator[bytes]:
    clean = data if len(data) % 4 == 0 and not re.search(r"\s", data) else "".join(data.split())
    for start in range(0, len(clean), _CHUNK_CHARS):
        try:
            yield binascii.a2b_base64(clean[start : start + _CHUNK_CHARS], strict_mode=True)
        except ValueError as problem:  # characters outside ASCII are no binascii.Error
            raise binascii.Error(str(problem)) from problem
