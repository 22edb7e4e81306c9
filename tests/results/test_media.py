"""Images, audio and blobs that are decoded to files with the right suffix."""

import base64
import json
from pathlib import Path

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Replacement, ReplacementReason
from mcp_dispatch.results.fit import FittedResult, fit_result
from mcp_dispatch.results.size import extract_blocks
from mcp_dispatch.results.store import ResultStore

PNG = b"\x89PNG\r\n\x1a\n"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def image(content: bytes, mime_type: str = "image/png") -> JsonObject:
    return {"type": "image", "data": encoded(content), "mimeType": mime_type}


def audio(content: bytes, mime_type: str = "audio/wav") -> JsonObject:
    return {"type": "audio", "data": encoded(content), "mimeType": mime_type}


def blob(content: bytes, mime_type: Json) -> JsonObject:
    resource: JsonObject = {"uri": "x:y", "blob": encoded(content), "mimeType": mime_type}
    return {"type": "resource", "resource": resource}


def fitted(tmp_path: Path, *blocks: Json) -> FittedResult:
    return fit_result(
        {"content": list(blocks)}, 50_000, ResultStore(tmp_path), "t", max_image_bytes=100_000
    )


@pytest.mark.parametrize(
    ("block", "suffix"),
    [
        (image(PNG + b"x" * 100_001), ".png"),
        (image(b"\xff\xd8\xff" + b"x" * 100_001, "image/JPEG; q=1"), ".jpg"),
        (image(b"x" * 60_000, "image/tiff"), ".tiff"),
        (audio(b"x" * 60_000), ".wav"),
        (audio(b"ID3" + b"x" * 60_000, "audio/../../etc"), ".mp3"),
        (blob(b"x" * 60_000, "application/pdf"), ".pdf"),
        (blob(b"%PDF-1.7" + b"x" * 60_000, None), ".pdf"),
        (
            blob(
                b"x" * 60_000,
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ),
            ".xlsx",
        ),
        (blob(b"x" * 60_000, "application/x-evil\n.sh"), ".bin"),
    ],
)
def test_large_media_are_decoded_to_a_file(tmp_path: Path, block: JsonObject, suffix: str) -> None:
    result = fitted(tmp_path, {"type": "text", "text": "here"}, block)

    (path,) = tmp_path.iterdir()
    carrier = block.get("resource", block)
    assert isinstance(carrier, dict)
    assert path.read_bytes() == base64.b64decode(str(carrier.get("data") or carrier.get("blob")))
    assert path.suffix == suffix
    text, replacement, link = extract_blocks(result.wire)
    assert text == {"type": "text", "text": "here"}
    assert f"was decoded and saved to: {path}\n</persisted-output>" in json.dumps(
        replacement
    ).replace("\\n", "\n")
    assert isinstance(link, dict)
    assert link["uri"] == f"dispatch://results/{path.stem}"
    assert result.replacements == (
        Replacement(ReplacementReason.MEDIA, str(link["mimeType"]), path.stat().st_size, str(path)),
    )


@pytest.mark.parametrize(
    "block",
    [
        image(PNG + b"x" * 90_000),
        audio(b"x" * 30_000),
        blob(b"x" * 30_000, "application/pdf"),
        {"type": "image", "data": 7},
        {"type": "image", "mimeType": "image/png"},
    ],
)
def test_small_media_are_delivered_unchanged(tmp_path: Path, block: JsonObject) -> None:
    result = fitted(tmp_path, block)

    assert result == FittedResult({"content": [block]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", ["é" * 60_000, "?" * 60_000, "QUJ" * 20_001])
def test_invalid_base64_is_stored_as_text(tmp_path: Path, data: str) -> None:
    result = fitted(tmp_path, {"type": "audio", "data": data, "mimeType": "audio/wav"})

    (path,) = tmp_path.iterdir()
    assert path.suffix == ".txt"
    assert path.read_text(encoding="utf-8") == data
    assert "base64 that cannot be decoded" in json.dumps(result.wire)


def test_media_that_cannot_be_stored_become_a_notice_and_the_call_succeeds(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    result = fitted(tmp_path / "file", {"type": "text", "text": "here"}, audio(b"x" * 60_000))

    assert extract_blocks(result.wire) == [
        {"type": "text", "text": "here"},
        {
            "type": "text",
            "text": "[Content of type audio/wav, too large to show and not kept: File exists]",
        },
    ]


def test_structure_does_not_hide_that_media_were_replaced(tmp_path: Path) -> None:
    wire: JsonObject = {
        "content": [audio(b"x" * 60_000)],
        "structuredContent": {"seconds": 3},
    }
    store = ResultStore(tmp_path)

    without = fit_result(wire, 50_000, store, "t")
    advertised = fit_result(wire, 50_000, store, "t", has_output_schema=True)

    assert "structuredContent" not in without.wire
    assert extract_blocks(without.wire)[-1] == {"type": "text", "text": '{"seconds":3}'}
    assert advertised.wire["structuredContent"] == {
        "mcp-dispatch/result": {
            "value": {"seconds": 3},
            "notes": ["Content beside this structure was replaced; it is not shown here."],
        }
    }
