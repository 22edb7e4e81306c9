"""Read on notebooks: cells and outputs in order, within limits."""

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.tools.files.edit import EditTool
from mcp_dispatch.tools.files.notebook import MAX_IMAGES, MAX_NOTEBOOK_BYTES
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.file_scope import FileScope, call, extract_error, extract_result_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


@pytest.fixture
def tool(root: Path) -> Tool:
    return ReadTool(Workspace(root))


def build_code_cell(
    source: str | list[str], *outputs: dict[str, Any], **more: Any
) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "metadata": {},
        "execution_count": None,
        "source": source,
        "outputs": list(outputs),
        **more,
    }


def build_stream_output(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def build_display_output(**data: Any) -> dict[str, Any]:
    kinds = {kind.replace("_", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": kinds}


def encode_png(width: int = 4, height: int = 3) -> str:
    stream = BytesIO()
    Image.new("RGB", (width, height)).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode("ascii")


def save_notebook(path: Path, *cells: dict[str, Any]) -> str:
    notebook: dict[str, Any] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": list(cells),
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return str(path)


def format_reminder(text: str) -> str:
    return f"<system-reminder>{text}</system-reminder>"


def get_blocks(wire: dict[str, Json]) -> list[Json]:
    assert wire.get("isError") is None, wire
    content = wire["content"]
    assert isinstance(content, list)
    return content


async def test_cells_are_shown_in_order_with_their_sources_and_outputs(tool: Tool, root: Path):
    path = save_notebook(
        root / "a.ipynb",
        {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "text"]},
        build_code_cell(
            ["import sys\n", "1 + 1"],
            build_stream_output(["hello\n", "there\n"]),
            build_stream_output("careful\n", "stderr"),
            {"output_type": "execute_result", "execution_count": 7, "data": {"text/plain": ["2"]}},
            id="sum-1",
            execution_count=7,
        ),
        {"cell_type": "raw", "metadata": {}, "source": ""},
    )

    result = await call(tool, FileScope(), file_path=path)

    assert extract_result_text(result) == (
        '<cell number="1" id="intro" type="markdown">\n# Title\ntext\n</cell>\n'
        '<cell number="2" id="sum-1" type="code" execution_count="7">\nimport sys\n1 + 1\n'
        "<output>\nhello\nthere\n</output>\n"
        '<output name="stderr">\ncareful\n</output>\n'
        "<output>\n2\n</output>\n</cell>\n"
        '<cell number="3" type="raw">\n\n</cell>'
    )
    assert result.response == {
        "type": "notebook",
        "file": {
            "filePath": path,
            "cells": [
                {
                    "cellType": "markdown",
                    "cell_id": "intro",
                    "execution_count": None,
                    "source": "# Title\ntext",
                    "outputs": [],
                },
                {
                    "cellType": "code",
                    "cell_id": "sum-1",
                    "execution_count": 7,
                    "source": "import sys\n1 + 1",
                    "outputs": [
                        "<output>\nhello\nthere\n</output>",
                        '<output name="stderr">\ncareful\n</output>',
                        "<output>\n2\n</output>",
                    ],
                },
                {
                    "cellType": "raw",
                    "cell_id": None,
                    "execution_count": None,
                    "source": "",
                    "outputs": [],
                },
            ],
        },
    }


async def test_a_traceback_is_shown_without_its_colours(tool: Tool, root: Path):
    lines = ["\x1b[0;31mZeroDivisionError\x1b[0m  Traceback", "  1/0", "division by zero"]
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": lines}
    short: dict[str, Any] = {
        "output_type": "error",
        "ename": "ValueError",
        "evalue": "no",
        "traceback": [],
    }
    path = save_notebook(root / "a.ipynb", build_code_cell("1/0", error, short))

    assert extract_result_text(await call(tool, FileScope(), file_path=path)) == (
        '<cell number="1" type="code">\n1/0\n'
        '<output type="error">\nZeroDivisionError  Traceback\n  1/0\ndivision by zero\n</output>\n'
        '<output type="error">\nValueError: no\n</output>\n</cell>'
    )


async def test_images_stand_where_their_outputs_are(tool: Tool, root: Path):
    image = encode_png()
    path = save_notebook(
        root / "a.ipynb",
        build_code_cell(
            "plot()",
            build_display_output(text_plain="<Figure>", image_png=image[:8] + "\n" + image[8:]),
        ),
        build_code_cell("after"),
    )

    result = await call(tool, FileScope(), file_path=path)

    assert get_blocks(result.wire) == [
        {
            "type": "text",
            "text": '<cell number="1" type="code">\nplot()\n<output>\n<Figure>\n</output>\n'
            "[PNG image, 4 x 3 pixels]",
        },
        {"type": "image", "data": image, "mimeType": "image/png"},
        {"type": "text", "text": '</cell>\n<cell number="2" type="code">\nafter\n</cell>'},
    ]


async def test_the_image_that_is_sent_is_as_small_as_any_other(tool: Tool, root: Path):
    path = save_notebook(
        root / "a.ipynb",
        build_code_cell("plot()", build_display_output(image_png=encode_png(3000, 30))),
    )

    text, image, _ = get_blocks((await call(tool, FileScope(), file_path=path)).wire)

    assert isinstance(text, dict)
    assert str(text["text"]).endswith(
        "[PNG image, 3000 x 30 pixels; shown resized to 1568 x 16, as JPEG]"
    )
    assert isinstance(image, dict)
    assert image["mimeType"] == "image/jpeg"


async def test_an_output_that_cannot_be_shown_is_replaced_by_a_note(tool: Tool, root: Path):
    path = save_notebook(
        root / "a.ipynb",
        build_code_cell(
            "x",
            build_display_output(image_png="no base64!"),
            build_display_output(
                image_png=base64.b64encode(b"\x89PNG\r\n\x1a\n\0").decode("ascii")
            ),
            build_display_output(**{"image_svg+xml": "<svg/>"}),
            build_display_output(application_json={"deep": [1, None]}),
            {"output_type": "update_display_data"},
        ),
    )

    assert extract_result_text(await call(tool, FileScope(), file_path=path)).split("\n") == [
        *('<cell number="1" type="code">', "x"),
        "[an image is not shown: it is no PNG, JPEG, GIF, WebP, BMP or TIFF]",
        "[an image is not shown: it is damaged or cut short]",
        *("<output>", "[not shown: neither text nor an image that can be shown]", "</output>"),
        *("<output>", '{"deep": [1, null]}', "</output>"),
        *("<output>", "[not shown: neither text nor an image that can be shown]", "</output>"),
        "</cell>",
    ]


async def test_one_answer_has_a_bounded_number_of_images(tool: Tool, root: Path):
    image = encode_png()
    path = save_notebook(
        root / "a.ipynb",
        *(build_code_cell("", build_display_output(image_png=image)) for _ in range(12)),
    )

    blocks = get_blocks((await call(tool, FileScope(), file_path=path)).wire)

    images = [block for block in blocks if isinstance(block, dict) and block["type"] == "image"]
    assert len(images) == MAX_IMAGES
    last = blocks[-1]
    assert isinstance(last, dict)
    more = "[an image is not shown: one answer has 10 at most; use offset and limit]"
    assert str(last["text"]).count(more) == 2


async def test_a_long_output_shows_its_beginning_and_its_end(tool: Tool, root: Path):
    path = save_notebook(
        root / "a.ipynb", build_code_cell("x", build_stream_output("a" * 50_000 + "z" * 50_000))
    )
    scope = FileScope()

    text = extract_result_text(await call(tool, scope, file_path=path))

    assert text == (
        '<cell number="1" type="code">\nx\n<output>\n' + "a" * 5000 + "\n"
        "[90000 characters are not shown]\n" + "z" * 5000 + "\n</output>\n</cell>"
    )
    assert not scope.files[path].partial


async def test_a_cell_with_endless_outputs_is_bounded(tool: Tool, root: Path):
    outputs = [build_stream_output("x" * 999) for _ in range(1000)]
    path = save_notebook(root / "a.ipynb", build_code_cell("x", *outputs), build_code_cell("y"))

    text = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert len(text) < 31_000
    assert "[980 more outputs are not shown]\n</cell>" in text
    assert text.endswith('<cell number="2" type="code">\ny\n</cell>')


async def test_offset_and_limit_count_cells(tool: Tool, root: Path):
    path = save_notebook(root / "a.ipynb", *(build_code_cell(f"cell {n}") for n in range(1, 6)))
    scope = FileScope()

    text = extract_result_text(await call(tool, scope, file_path=path, offset=2, limit=2))

    assert text == (
        '<cell number="2" type="code">\ncell 2\n</cell>\n'
        '<cell number="3" type="code">\ncell 3\n</cell>\n'
        + format_reminder(
            f"PARTIAL view of {path}: cells 2-3 of 5. Use offset and limit to read the rest."
            " This does not count as reading the file."
        )
    )
    assert scope.files[path].partial


async def test_a_notebook_over_the_budget_shows_the_cells_that_fit(tool: Tool, root: Path):
    path = save_notebook(root / "a.ipynb", *(build_code_cell("x" * 40_000) for _ in range(4)))
    scope = FileScope()

    first = extract_result_text(await call(tool, scope, file_path=path))
    rest = extract_result_text(await call(tool, scope, file_path=path, offset=3))

    assert "cells 1-2 of 4." in first
    assert "cells 3-4 of 4." in rest
    assert scope.files[path].partial


async def test_a_cell_over_the_budget_is_truncated_and_does_not_count_as_read(
    tool: Tool, root: Path
):
    path = save_notebook(root / "a.ipynb", build_code_cell("x" * 500_000))
    scope = FileScope()

    text = extract_result_text(await call(tool, scope, file_path=path))

    assert text == (
        '<cell number="1" type="code">\n'
        + "x" * 70_000
        + "\n</cell>\n"
        + format_reminder(
            f"PARTIAL view of {path}: cells 1-1 of 1. The source of cell 1 is too long to be shown"
            " whole. Use offset and limit to read the rest."
            " This does not count as reading the file."
        )
    )
    assert scope.files[path].partial


async def test_a_notebook_without_cells_and_an_offset_past_the_end_are_reported(
    tool: Tool, root: Path
):
    empty, one = (
        save_notebook(root / "empty.ipynb"),
        save_notebook(root / "one.ipynb", build_code_cell("x")),
    )

    assert extract_result_text(await call(tool, FileScope(), file_path=empty)) == format_reminder(
        "Warning: the notebook has no cells."
    )
    assert extract_result_text(
        await call(tool, FileScope(), file_path=one, offset=9)
    ) == format_reminder(
        "Warning: the notebook is shorter than the provided offset (9). It has 1 cells."
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"cells": [', "Input data was truncated"),
        (b'{"worksheets": []}', "Object missing required field `cells`"),
        (b"[" * 100_000, "Expected `object`, got `array`"),
        (b'{"a": ' + b"[" * 100_000, "it is nested too deeply"),
        (b'{"cells": 1}', "Expected `array`, got `int` - at `$.cells`"),
    ],
)
async def test_an_invalid_notebook_is_shown_as_text_with_a_notice(
    tool: Tool, root: Path, content: bytes, reason: str
):
    path = root / "a.ipynb"
    path.write_bytes(content)

    text = extract_result_text(await call(tool, FileScope(), file_path=str(path)))

    assert text.startswith("     1\t" + content[:1000].decode())
    assert format_reminder(
        f"Warning: this is not a valid notebook ({reason}); it is shown as text."
    ) in (text.split("\n"))


async def test_a_notebook_is_recognized_only_by_its_suffix(tool: Tool, root: Path):
    path = save_notebook(root / "a.json", build_code_cell("x"))

    text = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert text.startswith('     1\t{"nbformat": 4')


async def test_a_notebook_over_the_limit_is_not_read(tool: Tool, root: Path):
    path = root / "a.ipynb"
    with path.open("wb") as file:
        file.write(b'{"cells": []}')
        file.truncate(MAX_NOTEBOOK_BYTES + 1)

    assert extract_error(await call(tool, FileScope(), file_path=str(path))) == (
        f"{path} is a notebook of {MAX_NOTEBOOK_BYTES + 1} bytes; notebooks over {MAX_NOTEBOOK_BYTES}"
        " bytes are not read. Use Bash, for example with `jq`."
    )


async def test_a_cell_id_that_could_forge_markup_is_left_out(tool: Tool, root: Path):
    cell = build_code_cell("x", id='a"><output>')
    path = save_notebook(root / "a.ipynb", {**cell, "cell_type": "<evil>"})

    assert extract_result_text(await call(tool, FileScope(), file_path=path)) == (
        '<cell number="1" type="other">\nx\n</cell>'
    )


async def test_a_notebook_is_changed_only_by_a_scope_that_read_it(tool: Tool, root: Path):
    path, scope, workspace = (
        save_notebook(root / "a.ipynb", build_code_cell("old()")),
        FileScope(),
        Workspace(root),
    )
    change = {"file_path": path, "old_string": "old()", "new_string": "new()"}

    with pytest.raises(Refused, match="File has not been read yet"):
        await call(EditTool(workspace), scope, **change)
    await call(tool, scope, file_path=path)
    await call(EditTool(workspace), scope, **change)

    assert '"source": "new()"' in Path(path).read_text(encoding="utf-8")
    await call(WriteTool(workspace), scope, file_path=path, content='{"cells": []}')
    assert Path(path).read_text(encoding="utf-8") == '{"cells": []}'


async def test_a_view_of_some_cells_does_not_permit_a_write(tool: Tool, root: Path):
    path, scope = (
        save_notebook(root / "a.ipynb", build_code_cell("a"), build_code_cell("b")),
        FileScope(),
    )

    await call(tool, scope, file_path=path, limit=1)

    with pytest.raises(Refused, match="File has not been read yet"):
        await call(WriteTool(Workspace(root)), scope, file_path=path, content="{}")
