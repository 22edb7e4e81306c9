"""Preparation of images for a model: large ones are scaled, unsupported formats converted."""

import base64
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
"""Models scale larger images down themselves."""

MAX_IMAGE_BYTES = 500_000
"""Bytes of an image in a result."""

MAX_PIXELS = 64_000_000
"""Images with more pixels are not decoded: a small file can expand to any number of them."""

MAX_SOURCE_BYTES = 50 * 1024 * 1024
"""Bytes of an image file; larger ones are not loaded."""

_QUALITIES = (85, 70, 50, 30)
_ORIENTATION = 0x0112

_PLUGINS = {
    "PNG": "PngImagePlugin",
    "JPEG": "JpegImagePlugin",
    "GIF": "GifImagePlugin",
    "WEBP": "WebPImagePlugin",
    "BMP": "BmpImagePlugin",
    "TIFF": "TiffImagePlugin",
}
_MIME_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
# The exceptions of Pillow's decoders for malformed content (and warnings turned into errors).
_DECODE_ERRORS = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    struct.error,
    UserWarning,
)


class CannotShowImage(MCPDispatchError):
    """An image cannot be shown; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image as the model receives it. `remarks` describe how it was changed."""

    content: bytes
    format: str
    size: tuple[int, int]
    original_format: str
    original_size: tuple[int, int]
    remarks: tuple[str, ...] = ()

    def to_content_block(self) -> JsonObject:
        """Return the MCP content block."""
        text = base64.b64encode(self.content).decode("ascii")
        return {"type": "image", "data": text, "mimeType": self.mime_type}

    @property
    def mime_type(self) -> str:
        return _MIME_TYPES[self.format]

    def __str__(self) -> str:
        width, height = self.original_size
        text = f"{self.original_format} image, {width} x {height} pixels"
        return f"{text}; shown {', '.join(self.remarks)}" if self.remarks else text


def render_picture(content: bytes, format: str) -> Picture:
    """Decode the image and return it, converted if needed. Blocks. Raise `CannotShowImage`."""
    from PIL import Image

    # Only the decoder of this format is imported and tried.
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
    is_supported = format in _MIME_TYPES and image.mode != "CMYK"
    if not fits or not is_supported or _describe_frames(image, format) or _is_rotated(image):
        return None
    size = image.size
    image.load()
    return Picture(content, format, size, format, size)


def _convert(image: "Image", format: str) -> Picture:
    original, remarks = image.size, [_describe_frames(image, format)]
    is_rotated = _is_rotated(image)
    smaller = _shrink(image)
    if is_rotated:
        from PIL import ImageOps

        smaller = ImageOps.exif_transpose(smaller)
        remarks.append("turned upright")
    resized = max(original) > MAX_SIDE_PIXELS
    content, shown_format, size = _encode(smaller, lossless=not resized)
    if resized or max(size) < max(smaller.size):
        remarks.append(f"resized to {size[0]} x {size[1]}")
    remarks.append(f"as {shown_format}")
    return Picture(
        content, shown_format, size, format, original, tuple(remark for remark in remarks if remark)
    )


def _describe_frames(image: "Image", format: str) -> str:
    """Return which frame of an image is shown, or "" for an image with a single frame.

    The other images in a JPEG are its own previews and depth maps, so they do not count.
    """
    if format in ("JPEG", "BMP") or not getattr(image, "is_animated", False):
        return ""
    return "by its first page" if format == "TIFF" else "by the first frame of its animation"


def _is_rotated(image: "Image") -> bool:
    return image.getexif().get(_ORIENTATION, 1) in range(2, 9)


def _shrink(image: "Image") -> "Image":
    from PIL.Image import Resampling

    # A JPEG can be decoded at a fraction of its size; for other formats this does nothing.
    image.draft(None, (2 * MAX_SIDE_PIXELS, 2 * MAX_SIDE_PIXELS))
    mode = "RGBA" if image.has_transparency_data else "L" if image.mode == "L" else "RGB"
    converted = image if image.mode == mode else image.convert(mode)
    converted.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS), Resampling.LANCZOS, reducing_gap=2.0)
    return converted


def _encode(image: "Image", *, lossless: bool) -> tuple[bytes, str, tuple[int, int]]:
    """Return content, format and size.

    The format is PNG if the image is transparent or must stay lossless, and the PNG is small
    enough; otherwise JPEG at the best quality that fits.
    """
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
    # Drop colour profile and comments: a model does not use them, and they may be of any size.
    image.info.clear()
    stream = BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()
