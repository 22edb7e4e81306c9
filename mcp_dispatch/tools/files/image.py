"""Images as a model can take them: small ones as they are, others made smaller or converted."""

import base64
import re
import struct
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.json import JsonObject

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE_PIXELS = 1568
"""Pixels over which models scale an image down themselves."""

MAX_IMAGE_BYTES = 500_000
"""Bytes of an image as it is shown."""

MAX_PIXELS = 64_000_000
"""Pixels that are decoded at all: a few bytes can unfold to any number of them."""

MAX_SOURCE_BYTES = 50 * 1024 * 1024
"""Bytes of an image before it is decoded."""

_QUALITIES = (85, 70, 50, 30)
_ORIENTATION = 0x0112

# A GIF without a NUL in its first fields would be text that begins with its name.
_SIGNATURES = {
    "PNG": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "JPEG": re.compile(rb"\xff\xd8\xff"),
    "GIF": re.compile(rb"GIF8[79]a.{0,6}\0", re.DOTALL),
    "WEBP": re.compile(rb"RIFF.{4}WEBPVP8[ LX]", re.DOTALL),
    "BMP": re.compile(rb"BM.{4}\0{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\0{3}", re.DOTALL),
    "TIFF": re.compile(rb"II[\x2a\x2b]\0|MM\0[\x2a\x2b]"),
}
_PLUGINS = {
    "PNG": "PngImagePlugin",
    "JPEG": "JpegImagePlugin",
    "GIF": "GifImagePlugin",
    "WEBP": "WebPImagePlugin",
    "BMP": "BmpImagePlugin",
    "TIFF": "TiffImagePlugin",
}
_MIME_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
# What Pillow's readers raise for bytes that break their format (warnings where they are errors).
_DECODE_ERRORS = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError),
    *(struct.error, UserWarning),
)

SIGNATURE_BYTES = 64
"""Bytes of a file that tell an image's format."""


class CannotShowImage(MCPDispatchError):
    """An image cannot be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as it is shown. `remarks` are what was done to it."""

    content: bytes
    format: str
    size: tuple[int, int]
    original_format: str
    original_size: tuple[int, int]
    remarks: tuple[str, ...] = ()

    def to_content_block(self) -> JsonObject:
        """The MCP content block."""
        text = base64.b64encode(self.content).decode("ascii")
        return {"type": "image", "data": text, "mimeType": self.mime_type}

    @property
    def mime_type(self) -> str:
        return _MIME_TYPES[self.format]

    def __str__(self) -> str:
        width, height = self.original_size
        text = f"{self.original_format} image, {width} x {height} pixels"
        return f"{text}; shown {', '.join(self.remarks)}" if self.remarks else text


def detect_image_format(head: bytes) -> str | None:
    """The image format that the first bytes of a file tell of; its name tells nothing."""
    return next((name for name, first in _SIGNATURES.items() if first.match(head)), None)


def render_picture(content: bytes, format: str) -> Picture:
    """Decodes the image, to be sure that it can be. Blocks. Raises `CannotShow`."""
    from PIL import Image

    # Its own reader alone is tried, and the others are not even imported.
    import_module(f"PIL.{_PLUGINS[format]}")
    try:
        with Image.open(BytesIO(content), formats=(format,)) as image:
            _refuse_bomb(image.size)
            return _keep_unchanged(image, content, format) or _convert(image, format)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as bomb:
        raise CannotShowImage(f"it has more than {MAX_PIXELS} pixels") from bomb
    except _DECODE_ERRORS as problem:
        raise CannotShowImage("it is damaged or cut short") from problem


def _refuse_bomb(size: tuple[int, int]) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise CannotShowImage(f"it has {size[0]} x {size[1]} pixels, more than {MAX_PIXELS}")


def _keep_unchanged(image: "Image", content: bytes, format: str) -> Picture | None:
    fits = len(content) <= MAX_IMAGE_BYTES and max(image.size) <= MAX_SIDE_PIXELS
    known = format in _MIME_TYPES and image.mode != "CMYK"
    if not fits or not known or _describe_frames(image, format) or _is_rotated(image):
        return None
    size = image.size
    image.load()
    return Picture(content, format, size, format, size)


def _convert(image: "Image", format: str) -> Picture:
    original, remarks = image.size, [_describe_frames(image, format)]
    turned = _is_rotated(image)
    smaller = _shrink(image)
    if turned:
        from PIL import ImageOps

        smaller = ImageOps.exif_transpose(smaller)
        remarks.append("turned upright")
    resized = max(original) > MAX_SIDE_PIXELS
    content, shown_format, size = _encode(smaller, lossless=not resized)
    if resized or max(size) < max(smaller.size):
        remarks.append(f"resized to {size[0]} x {size[1]}")
    remarks.append(f"as {shown_format}")
    told = tuple(remark for remark in remarks if remark)
    return Picture(content, shown_format, size, format, original, told)


def _describe_frames(image: "Image", format: str) -> str:
    """What is shown of an image with several; empty for one that is shown whole.

    A JPEG's other images are previews and depth maps of its own.
    """
    if format in ("JPEG", "BMP") or not getattr(image, "is_animated", False):
        return ""
    return "by its first page" if format == "TIFF" else "by the first frame of its animation"


def _is_rotated(image: "Image") -> bool:
    return image.getexif().get(_ORIENTATION, 1) in range(2, 9)


def _shrink(image: "Image") -> "Image":
    from PIL.Image import Resampling

    # A JPEG can be decoded at a fraction of its size; other formats take no notice.
    image.draft(None, (2 * MAX_SIDE_PIXELS, 2 * MAX_SIDE_PIXELS))
    wanted = "RGBA" if image.has_transparency_data else "L" if image.mode == "L" else "RGB"
    plain = image if image.mode == wanted else image.convert(wanted)
    plain.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), Resampling.LANCZOS, reducing_gap=2.0)
    return plain


def _encode(image: "Image", *, lossless: bool) -> tuple[bytes, str, tuple[int, int]]:
    """PNG where it stays small and says more than JPEG could, else JPEG, as good as fits."""
    transparent = image.mode == "RGBA" and image.getchannel("A").getextrema() != (255, 255)
    if transparent or lossless:
        content = _save(image, "PNG")
        if len(content) <= MAX_IMAGE_BYTES:
            return content, "PNG", image.size
    opaque = _flatten_on_white(image) if image.mode == "RGBA" else image
    while True:
        for quality in _QUALITIES:
            content = _save(opaque, "JPEG", quality=quality)
            if len(content) <= MAX_IMAGE_BYTES:
                return content, "JPEG", opaque.size
        opaque = opaque.reduce(2)


def _flatten_on_white(image: "Image") -> "Image":
    from PIL.Image import new

    white = new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _save(image: "Image", format: str, **options: int) -> bytes:
    # Colour profile and comments stay behind: they count for nothing, and may be of any size.
    image.info.clear()
    stream = BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()
