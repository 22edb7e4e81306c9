"""Read on text files: the lines that are shown, and what counts as read."""

import os
import threading
import tracemalloc
from pathlib import Path

import pytest
from anyio import create_task_group, fail_after, wait_all_tasks_blocked
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_dispatch.fs.safe_open import compute_digest, open_regular_file
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import FileRead, FileSeen, Interrupt, Sharing, Tool
from mcp_dispatch.tools.files.read import ReadTool, parse_bounds
from mcp_dispatch.tools.files.target import FileTarget
from mcp_dispatch.tools.files.text_page import Bounds, LineWindow, StopSignal, TextPage, read_page
from tests.support.file_scope import FileScope, call, extract_error, extract_result_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


@pytest.fixture
def tool(root: Path) -> Tool:
    return ReadTool(Workspace(root))


def format_reminder(text: str) -> str:
    return f"<system-reminder>{text}</system-reminder>"


def write_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


async def read_and_get_state(tool: Tool, path: str, **arguments: int) -> FileSeen:
    scope = FileScope()
    await call(tool, scope, file_path=path, **arguments)
    return scope.files[path]


async def test_lines_are_numbered_as_cat_does(tool: Tool, root: Path):
    path = write_file(root / "f", b"one\n\n  three\n")

    result = await call(tool, FileScope(), file_path=path)

    assert extract_result_text(result) == "     1\tone\n     2\t\n     3\t  three"
    assert result.response == {
        "type": "text",
        "file": {
            "filePath": path,
            "content": "one\n\n  three",
            "numLines": 3,
            "startLine": 1,
            "totalLines": 3,
        },
    }
    status = (root / "f").stat()
    seen = FileSeen(status.st_mtime_ns, 13, compute_digest(b"one\n\n  three\n"))
    assert result.changes == (FileRead(path, seen),)


async def test_a_last_line_without_a_newline_is_a_line(tool: Tool, root: Path):
    path = write_file(root / "f", b"one\ntwo")

    assert (
        extract_result_text(await call(tool, FileScope(), file_path=path))
        == "     1\tone\n     2\ttwo"
    )


async def test_a_carriage_return_before_a_newline_is_not_shown(tool: Tool, root: Path):
    path = write_file(root / "f", b"one\r\ntwo\r\n\r\n")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert shown == "     1\tone\n     2\ttwo\n     3\t"


async def test_only_a_line_feed_ends_a_line(tool: Tool, root: Path):
    path = write_file(root / "f", "a\u2028b\x0bc\x85d\re\n".encode())

    shown = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert shown == "     1\ta\u2028b\x0bc\x85d\re"


async def test_an_empty_file_is_reported_and_counts_as_read(tool: Tool, root: Path):
    path = write_file(root / "f", b"")

    result = await call(tool, FileScope(), file_path=path)

    assert extract_result_text(result) == format_reminder(
        "Warning: the file exists but the contents are empty."
    )
    assert not (await read_and_get_state(tool, path)).partial


async def test_offset_and_limit_choose_lines_and_make_the_view_partial(tool: Tool, root: Path):
    path = write_file(root / "f", b"1\n2\n3\n4\n5\n")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path, offset=2, limit=3))

    assert shown == "     2\t2\n     3\t3\n     4\t4\n" + format_reminder(
        f"PARTIAL view of {path}: lines 2-4 of 5. Use offset and limit to read the rest."
        " This does not count as reading the file."
    )
    assert (await read_and_get_state(tool, path, offset=2, limit=3)).partial


async def test_a_range_that_shows_every_line_counts_as_read(tool: Tool, root: Path):
    path = write_file(root / "f", b"1\n2\n3\n")

    assert not (await read_and_get_state(tool, path, offset=1, limit=3)).partial
    assert not (await read_and_get_state(tool, path, offset=0, limit=99)).partial
    assert (await read_and_get_state(tool, path, offset=2)).partial


async def test_an_offset_past_the_end_says_how_long_the_file_is(tool: Tool, root: Path):
    path = write_file(root / "f", b"1\n2\n")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path, offset=9))

    assert shown == format_reminder(
        "Warning: the file exists but is shorter than the provided offset (9)."
        " The file has 2 lines."
    )
    assert (await read_and_get_state(tool, path, offset=9)).partial


async def test_a_file_of_more_than_2000_lines_shows_its_first_page(tool: Tool, root: Path):
    path = write_file(root / "f", b"x\n" * 2001)

    lines = extract_result_text(await call(tool, FileScope(), file_path=path)).split("\n")

    assert lines[1999:] == [
        "  2000\tx",
        format_reminder(
            f"PARTIAL view of {path}: lines 1-2000 of 2001. Use offset and limit to read the"
            " rest. This does not count as reading the file."
        ),
    ]
    assert (await read_and_get_state(tool, path)).partial
    assert not (await read_and_get_state(tool, path, limit=2001)).partial


async def test_long_lines_are_cut_with_a_notice_unless_a_range_asks_for_them(
    tool: Tool, root: Path
):
    path = write_file(root / "f", b"a\n" + b"b" * 2001 + b"\n" + b"c" * 2000 + b"\r\n")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path)).split("\n")

    assert shown == [
        "     1\ta",
        "     2\t" + "b" * 2000,
        "     3\t" + "c" * 2000,
        format_reminder(
            f"PARTIAL view of {path}: lines 1-3 of 3. Cut at 2000 characters: line 2."
            " Use offset and limit to read the rest. This does not count as reading the file."
        ),
    ]
    whole = extract_result_text(await call(tool, FileScope(), file_path=path, offset=1, limit=3))
    assert whole.split("\n")[1] == "     2\t" + "b" * 2001
    assert not (await read_and_get_state(tool, path, offset=1, limit=3)).partial


async def test_a_file_over_the_limit_shows_the_lines_that_fit(tool: Tool, root: Path):
    path = write_file(root / "f", (b"x" * 999 + b"\n") * 150)

    result = await call(tool, FileScope(), file_path=path)

    assert extract_result_text(result).split("\n")[100:] == [
        format_reminder(
            f"PARTIAL view of {path}: lines 1-100 of 150. Use offset and limit to read the rest."
            " This does not count as reading the file."
        )
    ]
    assert (await read_and_get_state(tool, path)).partial


async def test_a_range_over_the_limit_is_an_error_and_does_not_count_as_read(
    tool: Tool, root: Path
):
    path = write_file(root / "f", (b"x" * 999 + b"\n") * 150)
    scope = FileScope()

    result = await call(tool, scope, file_path=path, offset=1, limit=150)

    assert extract_error(result) == (
        "File content (37500 tokens) exceeds maximum allowed tokens (25000)."
        " Use offset and limit parameters to read a smaller part of the file."
    )
    assert scope.files == {}


@pytest.mark.parametrize(
    "content",
    [
        "é “q”\n".encode(),
        b"\xef\xbb\xbf" + "é “q”\n".encode(),
        b"\xff\xfe" + "é “q”\n".encode("utf-16-le"),
        b"\xfe\xff" + "é “q”\r\n".encode("utf-16-be"),
    ],
)
async def test_unicode_encodings_are_read_without_their_bom(tool: Tool, root: Path, content: bytes):
    path = write_file(root / "f", content)

    assert extract_result_text(await call(tool, FileScope(), file_path=path)) == "     1\té “q”"


async def test_a_file_with_only_a_bom_is_empty(tool: Tool, root: Path):
    path = write_file(root / "f", b"\xef\xbb\xbf")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert shown == format_reminder("Warning: the file exists but the contents are empty.")


async def test_bytes_that_are_no_utf_8_are_replaced_with_a_notice(tool: Tool, root: Path):
    path = write_file(root / "f", b"caf\xe9 \xef\xbf\xbd\nend\n")

    shown = extract_result_text(await call(tool, FileScope(), file_path=path))

    assert shown == "     1\tcaf\ufffd \ufffd\n     2\tend\n" + format_reminder(
        "Warning: the file is not valid UTF-8; bytes that could not be read are shown as \ufffd."
    )


async def test_a_true_replacement_character_needs_no_notice(tool: Tool, root: Path):
    path = write_file(root / "f", "\ufffd\n".encode())

    assert extract_result_text(await call(tool, FileScope(), file_path=path)) == "     1\t\ufffd"


@pytest.mark.parametrize("content", [b"\x7fELF\2\1\1\0", b"a\0b", b"\xff\xfe\0\0a\0\0\0"])
async def test_a_binary_file_is_an_error_that_points_elsewhere(
    tool: Tool, root: Path, content: bytes
):
    path = write_file(root / "f", content)

    assert extract_error(await call(tool, FileScope(), file_path=path)) == (
        f"{path} is a binary file; Read shows text, notebooks and images (PNG, JPEG, GIF, WebP,"
        " BMP, TIFF). Use Bash with a program that knows its format, such as `file` or `xxd`."
    )


async def test_a_directory_is_an_error(tool: Tool, root: Path):
    (root / "d").mkdir()

    assert extract_error(await call(tool, FileScope(), file_path=str(root / "d"))) == (
        f"{root / 'd'} is a directory, not a file. List it with `ls` in Bash."
    )


async def test_a_missing_file_is_an_error_with_similar_names(tool: Tool, root: Path):
    for name in ("readme.md", "config.yaml", "unrelated"):
        (root / name).touch()

    for wrong, right in (("raedme.md", "readme.md"), ("config.json", "config.yaml")):
        assert extract_error(await call(tool, FileScope(), file_path=str(root / wrong))) == (
            f"File does not exist: {root / wrong}. Did you mean {root / right}?"
        )
    nowhere = root / "no" / "such"
    assert extract_error(await call(tool, FileScope(), file_path=str(nowhere))) == (
        f"File does not exist: {nowhere}."
    )


async def test_the_check_does_not_disclose_whether_a_file_exists(tool: Tool, root: Path):
    arguments: JsonObject = {"file_path": str(root / "missing")}

    checked = await tool.check(arguments, FileScope().context())

    assert checked.arguments == arguments


async def test_special_files_are_refused_at_once(tool: Tool, root: Path):
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("/dev/zero")

    with fail_after(5):
        fifo = extract_error(await call(tool, FileScope(), file_path=str(root / "fifo")))
        zero = extract_error(await call(tool, FileScope(), file_path=str(root / "link")))
        own = extract_error(await call(tool, FileScope(), file_path="/proc/self/environ"))

    regular = "only regular files can be read or written."
    assert fifo == f"{root / 'fifo'} is a FIFO (named pipe); {regular}"
    assert zero == f"/dev/zero is a character device; {regular}"
    assert own == (
        f"/proc/{os.getpid()}/environ belongs to the kernel and is not an ordinary file. Use Bash."
    )


async def test_a_link_is_recorded_by_its_target(tool: Tool, root: Path):
    write_file(root / "real", b"x\n")
    (root / "link").symlink_to("real")

    result = await call(tool, FileScope(), file_path=str(root / "link"))

    assert extract_result_text(result) == "     1\tx"
    seen = [change.path for change in result.changes if isinstance(change, FileRead)]
    assert seen == [str(root / "real")]


async def test_the_path_becomes_absolute_before_rules_see_it(tool: Tool, root: Path):
    checked = await tool.check({"file_path": "a/../b", "limit": 1}, FileScope(root).context())

    assert checked.arguments == {"file_path": str(root / "b"), "limit": 1}


async def test_a_path_that_ends_in_a_slash_is_refused(tool: Tool, root: Path):
    with pytest.raises(Refused) as refused:
        await tool.check({"file_path": f"{root}/f/"}, FileScope().context())

    assert str(refused.value) == f"'{root}/f/' names a directory; give the path of a file in it"


async def test_without_a_workspace_only_stored_results_are_read(root: Path):
    path, other = write_file(root / "kept", b"x\n"), write_file(root / "other", b"y\n")
    tool, scope = ReadTool(Workspace(None, unset_reason="nobody chose")), FileScope(kept=(path,))

    assert extract_result_text(await call(tool, scope, file_path=path)) == "     1\tx"
    with pytest.raises(Refused) as refused:
        await call(tool, scope, file_path=other)
    assert str(refused.value) == (
        "no workspace: nobody chose; start the server with --workspace DIR"
    )


class AppendOnCheck:
    """A stop signal that appends to the file when it is checked for the first time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done = False

    def is_set(self) -> bool:
        if not self._done:
            self._done = True
            with self._path.open("ab") as file:
                file.write(b"more\n")
        return False


def read_file_page(path: Path, bounds: Bounds, stop: StopSignal) -> TextPage:
    with open_regular_file(path) as descriptor:
        return read_page(FileTarget(path, path), descriptor, bounds, stop)


def test_a_file_that_changes_while_it_is_read_is_a_partial_view(root: Path):
    write_file(root / "f", b"one\n")

    page = read_file_page(root / "f", parse_bounds({}), AppendOnCheck(root / "f"))

    assert (page.lines, page.has_changed, page.seen.partial) == (("one",), True, True)


def test_a_huge_file_is_paged_in_bounded_memory(root: Path):
    path = root / "huge"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"a line of this file\n" * 52_429)

    tracemalloc.start()
    page = read_file_page(path, Bounds(3_000_000, 2, None, 100_000), threading.Event())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert page.lines == ("a line of this file", "a line of this file")
    assert page.total_lines == 64 * 52_429
    assert peak < 16 * 1024 * 1024


def test_one_endless_line_is_truncated_in_bounded_memory(root: Path):
    path = root / "line"
    with path.open("wb") as file:
        for _ in range(32):
            file.write(b"x" * 1024 * 1024)

    tracemalloc.start()
    page = read_file_page(path, parse_bounds({}), threading.Event())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert page.lines == ("x" * 2000,)
    assert peak < 16 * 1024 * 1024


async def test_a_cancelled_read_returns_at_once(tool: Tool, root: Path):
    with (root / "f").open("wb") as file:
        # Sparse, and too large to be read before the deadline.
        file.truncate(64 * 1024**3)
        file.write(b"text\n" * 4000)
    finished: list[str] = []

    async def read() -> None:
        await call(tool, FileScope(), file_path=str(root / "f"))
        finished.append("read")

    with fail_after(5):
        async with create_task_group() as tasks:
            tasks.start_soon(read)
            await wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    assert finished == []


def test_read_is_a_shared_cancellable_reader(tool: Tool):
    assert (tool.name, tool.rule_name, tool.server) == ("Read", "Read", None)
    assert (tool.interrupt, tool.result_limit) == (Interrupt.CANCEL, None)
    assert tool.decide_sharing({}) is Sharing.SHARED
    assert tool.definition["annotations"] == {
        "title": "Read a file",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    match tool.definition["inputSchema"]:
        case {"properties": dict(properties), "required": required, **rest}:
            assert list(properties) == ["file_path", "offset", "limit"]
            assert required == ["file_path"]
            assert rest == {"type": "object", "additionalProperties": False}
        case schema:
            raise AssertionError(schema)


@settings(deadline=None)
@given(
    text=st.text(alphabet="ab\r\n"),
    first=st.integers(1, 8),
    count=st.integers(1, 8),
    piece=st.integers(1, 5),
)
def test_lines_do_not_depend_on_how_the_file_comes_in_pieces(
    text: str, first: int, count: int, piece: int
):
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    window = LineWindow(Bounds(first, count, 3, 1000))

    for start in range(0, len(text), piece):
        window.feed(text[start : start + piece])
    window.finish()

    chosen = lines[first - 1 : first - 1 + count]
    assert window.lines == [line[:3] for line in chosen]
    assert window.cut_lines == [n for n, line in enumerate(chosen, first) if len(line) > 3]
    assert window.total_lines == len(lines)
