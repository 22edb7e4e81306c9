"""Read on images: what the model receives, and what is refused before decoding."""

import base64
import struct
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.tools import Tool, ToolResult
from mcp_dispatch.tools.files.encoding import detect_image_format
from mcp_dispatch.tools.files.image import (
    MAX_IMAGE_BYTES,
    MAX_SIDE_PIXELS,
    MAX_SOURCE_BYTES,
)
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.file_scope import FileScope, call, extract_error, extract_result_text

DAMAGED = "cannot be shown: it is damaged or cut short."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


@pytest.fixture
def tool(root: Path) -> Tool:
    return ReadTool(Workspace(root))


def encode_image(image: Image.Image, format: str, **options: object) -> bytes:
    stream = BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def create_image(width: int = 40, height: int = 30, mode: str = "RGB") -> Image.Image:
    return Image.new(mode, (width, height), 0)


def create_noise(width: int, height: int) -> Image.Image:
    bands = [Image.effect_noise((width, height), 100) for _ in "RGB"]
    return Image.merge("RGB", bands)


def get_image(result: ToolResult) -> tuple[str, str, bytes]:
    """Return text, MIME type and bytes of an image result."""
    assert not result.is_error, result.wire
    match result.wire["content"]:
        case [
            {"type": "text", "text": str(text)},
            {"type": "image", "data": str(content), "mimeType": str(mime_type)},
        ]:
            return text, mime_type, base64.b64decode(content, validate=True)
        case content:
            raise AssertionError(f"expected a text and an image, got {content!r}")


def open_image(content: bytes) -> Image.Image:
    image = Image.open(BytesIO(content))
    image.load()
    return image


def build_png_with_size(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes whose header declares that many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels)


@pytest.mark.parametrize(
    ("format", "mime_type"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("WEBP", "image/webp"),
    ],
)
async def test_a_small_image_is_shown_unchanged_whatever_its_name(
    tool: Tool, root: Path, format: str, mime_type: str
):
    path, content = root / "notes.txt", encode_image(create_image(), format)
    path.write_bytes(content)

    result = await call(tool, FileScope(), file_path=str(path))

    text = f"{path}: {format} image, 40 x 30 pixels ({len(content)} bytes in the file)."
    assert get_image(result) == (text, mime_type, content)
    assert result.response == {
        "type": "image",
        "file": {
            "filePath": str(path),
            "base64": base64.b64encode(content).decode("ascii"),
            "type": mime_type,
            "originalSize": len(content),
            "dimensions": {
                "originalWidth": 40,
                "originalHeight": 30,
                "displayWidth": 40,
                "displayHeight": 30,
            },
        },
    }


@pytest.mark.parametrize("format", ["BMP", "TIFF"])
async def test_formats_that_clients_do_not_know_are_converted(tool: Tool, root: Path, format: str):
    image, path = create_noise(40, 30), root / "picture"
    path.write_bytes(encode_image(image, format))

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    size = path.stat().st_size
    assert text == (
        f"{path}: {format} image, 40 x 30 pixels; shown as PNG ({size} bytes in the file)."
    )
    assert mime_type == "image/png"
    assert open_image(content).tobytes() == image.tobytes()


async def test_a_large_image_is_made_smaller_and_keeps_its_shape(tool: Tool, root: Path):
    path = root / "wide.png"
    path.write_bytes(encode_image(create_image(4000, 1000), "PNG"))

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "4000 x 1000 pixels; shown resized to 1568 x 392, as JPEG" in text
    assert mime_type == "image/jpeg"
    assert open_image(content).size == (MAX_SIDE_PIXELS, 392)


async def test_a_large_image_with_transparency_stays_a_png(tool: Tool, root: Path):
    path = root / "logo.png"
    path.write_bytes(encode_image(Image.new("RGBA", (2000, 2000), (255, 0, 0, 90)), "PNG"))

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "shown resized to 1568 x 1568, as PNG" in text
    assert mime_type == "image/png"
    assert open_image(content).getpixel((5, 5)) == (255, 0, 0, 90)


async def test_transparency_that_would_be_too_large_is_shown_on_white(tool: Tool, root: Path):
    image = create_noise(1000, 1000)
    image.putalpha(0)
    path = root / "noise.png"
    path.write_bytes(encode_image(image, "PNG"))

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "1000 x 1000 pixels; shown as JPEG" in text
    assert mime_type == "image/jpeg"
    assert open_image(content).getpixel((5, 5)) == (255, 255, 255)


async def test_an_image_of_many_bytes_is_encoded_again_until_it_fits(tool: Tool, root: Path):
    path = root / "noise.png"
    path.write_bytes(encode_image(create_noise(1500, 1500), "PNG"))

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert path.stat().st_size > MAX_IMAGE_BYTES
    assert len(content) <= MAX_IMAGE_BYTES
    assert mime_type == "image/jpeg"
    assert text.endswith(f"as JPEG ({path.stat().st_size} bytes in the file).")


async def test_a_photo_is_rotated_by_its_exif_orientation(tool: Tool, root: Path):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = root / "photo.jpg"
    path.write_bytes(encode_image(create_image(40, 30), "JPEG", exif=exif))

    text, _, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "40 x 30 pixels; shown turned upright, as PNG" in text
    assert open_image(content).size == (30, 40)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
async def test_of_an_animation_the_first_frame_is_shown(tool: Tool, root: Path, format: str):
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    path = root / "moving"
    content = encode_image(
        frames[0], format, save_all=True, append_images=frames[1:], lossless=True
    )
    path.write_bytes(content)

    text, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "20 x 20 pixels; shown by the first frame of its animation, as PNG" in text
    assert mime_type == "image/png"
    assert open_image(content).convert("RGB").getpixel((5, 5)) == (255, 0, 0)


async def test_of_a_tiff_with_pages_the_first_is_shown(tool: Tool, root: Path):
    pages = [create_image(), create_image()]
    path = root / "scan.tiff"
    path.write_bytes(encode_image(pages[0], "TIFF", save_all=True, append_images=pages[1:]))

    text, _, _ = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert "shown by its first page, as PNG" in text


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "I;16"])
async def test_images_of_every_mode_are_made_smaller(tool: Tool, root: Path, mode: str):
    path = root / "picture.png"
    path.write_bytes(encode_image(create_image(1600, 800, mode), "PNG"))

    _, _, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert open_image(content).size == (1568, 784)


async def test_cmyk_images_are_converted_to_rgb(tool: Tool, root: Path):
    path = root / "print.jpg"
    path.write_bytes(encode_image(create_image(40, 30, "CMYK"), "JPEG"))

    _, mime_type, content = get_image(await call(tool, FileScope(), file_path=str(path)))

    assert (mime_type, open_image(content).mode) == ("image/png", "RGB")


@pytest.mark.parametrize(
    ("width", "height", "reason"),
    [
        (8_001, 8_000, "it has 8001 x 8000 pixels, more than 64000000"),
        (10_000, 10_000, "it has more than 64000000 pixels"),
        (65_535, 65_535, "it has more than 64000000 pixels"),
    ],
)
async def test_a_bomb_is_refused_before_it_is_decoded(
    tool: Tool, root: Path, width: int, height: int, reason: str
):
    path = root / "bomb.png"
    path.write_bytes(build_png_with_size(width, height))

    error = extract_error(await call(tool, FileScope(), file_path=str(path)))

    assert error == f"{path} is a PNG image that cannot be shown: {reason}."


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
async def test_an_image_that_is_cut_short_is_an_error(tool: Tool, root: Path, format: str):
    content = encode_image(create_noise(80, 60), format)
    path = root / "half"
    path.write_bytes(content[: len(content) // 2])

    error = extract_error(await call(tool, FileScope(), file_path=str(path)))

    assert error == f"{path} is a {format} image that {DAMAGED}"


async def test_a_header_with_nothing_behind_it_is_an_error(tool: Tool, root: Path):
    path = root / "stub"
    for content, format in (
        (b"\x89PNG\r\n\x1a\n\0\0\0", "PNG"),
        (b"\xff\xd8\xff\xe0", "JPEG"),
        (b"GIF89a\1\0\1\0\0\0\0", "GIF"),
        (b"II*\0\x08\0\0\0", "TIFF"),
    ):
        path.write_bytes(content)
        error = extract_error(await call(tool, FileScope(), file_path=str(path)))
        assert error == f"{path} is a {format} image that {DAMAGED}"


async def test_an_image_file_over_the_limit_is_not_read(tool: Tool, root: Path):
    path = root / "huge.png"
    with path.open("wb") as file:
        file.write(encode_image(create_image(), "PNG"))
        file.truncate(MAX_SOURCE_BYTES + 1)

    error = extract_error(await call(tool, FileScope(), file_path=str(path)))

    assert error == (
        f"{path} is a PNG image of {MAX_SOURCE_BYTES + 1} bytes; images over {MAX_SOURCE_BYTES} bytes are not"
        " read. Make it smaller with Bash."
    )


@pytest.mark.parametrize(
    "text",
    ["GIF89a is a format", "BM is short for it", "RIFF1234WEBP", "II* and MM", "<svg></svg>"],
)
async def test_text_that_begins_like_an_image_is_text(tool: Tool, root: Path, text: str):
    path = root / "picture.gif"
    path.write_text(text, encoding="utf-8")

    assert (
        extract_result_text(await call(tool, FileScope(), file_path=str(path))) == f"     1\t{text}"
    )


async def test_seeing_an_image_is_not_reading_the_file(tool: Tool, root: Path):
    path, scope = root / "a.png", FileScope()
    path.write_bytes(encode_image(create_image(), "PNG"))

    await call(tool, scope, file_path=str(path))

    assert scope.files == {}
    with pytest.raises(Refused, match="File has not been read yet"):
        await call(WriteTool(Workspace(root)), scope, file_path=str(path), content="x")


def test_the_format_comes_from_the_first_bytes_alone():
    assert detect_image_format(b"") is None
    assert detect_image_format(b"\x89PNG\r\n\x1a") is None
    assert detect_image_format(b"RIFF\0\0\0\0WAVEfmt ") is None
