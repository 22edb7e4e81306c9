"""Write: files are replaced only after they were read, and atomically."""

import os
import stat
from pathlib import Path

import pytest
from anyio import CancelScope, create_task_group, fail_after, wait_all_tasks_blocked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_dispatch.fs.safe_open import compute_digest
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.outcome import Refusal, RefusedBy
from mcp_dispatch.model.tools import (
    FileRead,
    FileSeen,
    Interrupt,
    Sharing,
    Tool,
    build_error_result,
)
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.file_scope import FileScope, call, extract_error, extract_result_text

NOT_READ = "File has not been read yet. Read it first before writing to it."
MODIFIED = (
    "File has been modified since read, either by the user or by a linter."
    " Read it again before attempting to write it."
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


@pytest.fixture
def tool(root: Path) -> Tool:
    return WriteTool(Workspace(root))


@pytest.fixture
def read(root: Path) -> Tool:
    return ReadTool(Workspace(root))


def write_file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


async def get_refusal(tool: Tool, scope: FileScope, path: str, content: str = "new") -> Refusal:
    with pytest.raises(Refused) as refused:
        await call(tool, scope, file_path=path, content=content)
    return refused.value.refusal


async def test_a_new_file_is_created_with_its_parents(tool: Tool, root: Path):
    path = root / "a" / "b" / "new.txt"
    scope = FileScope()

    result = await call(tool, scope, file_path=str(path), content="é\r\nx\n")

    assert extract_result_text(result) == f"File created successfully at: {path}"
    assert result.response == {
        "type": "create",
        "filePath": str(path),
        "content": "é\r\nx\n",
        "structuredPatch": [],
        "originalFile": None,
    }
    assert path.read_bytes() == "é\r\nx\n".encode()
    seen = FileSeen(path.stat().st_mtime_ns, 6, compute_digest("é\r\nx\n".encode()))
    assert result.changes == (FileRead(str(path), seen),)


async def test_an_update_returns_a_unified_diff(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"1\n2\n3\n4\n5\n6\n7\n8\n9\n"), FileScope()
    await call(read, scope, file_path=path)

    result = await call(tool, scope, file_path=path, content="1\n2\n3\n4\nfive\n6\n7\n8\n9")

    assert extract_result_text(result) == "\n".join(
        [
            f"File updated successfully at: {path}",
            f"--- {path}",
            f"+++ {path}",
            "@@ -2,8 +2,8 @@",
            *(" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8", "-9", "+9"),
            "\\ No newline at end of file",
        ]
    )
    assert result.response == {
        "type": "update",
        "filePath": path,
        "content": "1\n2\n3\n4\nfive\n6\n7\n8\n9",
        "structuredPatch": [
            {
                "oldStart": 2,
                "oldLines": 8,
                "newStart": 2,
                "newLines": 8,
                "lines": [
                    *(" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8", "-9", "+9"),
                    "\\ No newline at end of file",
                ],
            }
        ],
        "originalFile": "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
    }


async def test_a_file_that_was_not_read_is_not_overwritten(tool: Tool, root: Path):
    path = write_file(root / "f", b"old")

    assert await get_refusal(tool, FileScope(), path) == Refusal(RefusedBy.SEMANTIC, NOT_READ)
    assert (root / "f").read_bytes() == b"old"


async def test_a_partial_view_is_not_a_read(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"1\n2\n"), FileScope()
    await call(read, scope, file_path=path, limit=1)

    assert await get_refusal(tool, scope, path) == Refusal(RefusedBy.SEMANTIC, NOT_READ)


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(
    tool: Tool, read: Tool, root: Path
):
    path, scope = write_file(root / "f", b"old"), FileScope()
    await call(read, scope, file_path=path)
    write_file(root / "f", b"theirs")

    assert await get_refusal(tool, scope, path) == Refusal(RefusedBy.SEMANTIC, MODIFIED)
    assert (root / "f").read_bytes() == b"theirs"


async def test_a_change_that_keeps_time_and_size_is_noticed(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"old"), FileScope()
    await call(read, scope, file_path=path)
    before = (root / "f").stat()
    write_file(root / "f", b"new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert await get_refusal(tool, scope, path) == Refusal(RefusedBy.SEMANTIC, MODIFIED)


async def test_a_new_mtime_without_a_change_of_content_is_no_change(
    tool: Tool, read: Tool, root: Path
):
    path, scope = write_file(root / "f", b"old"), FileScope()
    await call(read, scope, file_path=path)
    os.utime(path, ns=(1, 1))

    await call(tool, scope, file_path=path, content="new")

    assert (root / "f").read_bytes() == b"new"


async def test_a_change_between_check_and_run_is_noticed(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"old"), FileScope()
    await call(read, scope, file_path=path)
    checked = await tool.check({"file_path": path, "content": "new"}, scope.context())
    write_file(root / "f", b"theirs")

    result = await tool.run(checked.arguments, scope.context())

    assert result == build_error_result(MODIFIED)
    assert (root / "f").read_bytes() == b"theirs"


async def test_a_file_that_appears_between_check_and_run_is_not_overwritten(tool: Tool, root: Path):
    path, scope = str(root / "f"), FileScope()
    checked = await tool.check({"file_path": path, "content": "new"}, scope.context())
    write_file(root / "f", b"theirs")

    result = await tool.run(checked.arguments, scope.context())

    assert result == build_error_result(NOT_READ)
    assert (root / "f").read_bytes() == b"theirs"


async def test_a_file_that_was_written_can_be_written_again(tool: Tool, root: Path):
    path, scope = str(root / "f"), FileScope()
    await call(tool, scope, file_path=path, content="one")

    await call(tool, scope, file_path=path, content="two")
    same = await call(tool, scope, file_path=path, content="two")

    assert (root / "f").read_bytes() == b"two"
    assert extract_result_text(same) == (
        f"File written successfully at: {path}\nIts content is the same as before."
    )


async def test_a_deleted_file_is_created_again(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"old"), FileScope()
    await call(read, scope, file_path=path)
    (root / "f").unlink()

    result = await call(tool, scope, file_path=path, content="new")

    assert extract_result_text(result) == f"File created successfully at: {path}"


async def test_line_ends_are_written_as_they_are_given(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"a\r\nb\r\n"), FileScope()
    await call(read, scope, file_path=path)

    await call(tool, scope, file_path=path, content="a\nb\r\nc\r")

    assert (root / "f").read_bytes() == b"a\nb\r\nc\r"


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")],
)
async def test_the_encoding_of_an_existing_file_is_kept(
    tool: Tool, read: Tool, root: Path, mark: bytes, codec: str
):
    path, scope = write_file(root / "f", mark + "alt ü\r\n".encode(codec)), FileScope()
    await call(read, scope, file_path=path)

    await call(tool, scope, file_path=path, content="neu ß 🙂\n")

    assert (root / "f").read_bytes() == mark + "neu ß 🙂\n".encode(codec)


async def test_a_file_that_is_not_utf_8_is_not_overwritten(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "f", b"caf\xe9\n"), FileScope()
    await call(read, scope, file_path=path)

    assert await get_refusal(tool, scope, path) == Refusal(
        RefusedBy.SEMANTIC,
        f"{path} is not valid UTF-8 text, and writing it would lose the bytes that Read could not"
        " show. Convert it first, for example with `iconv` in Bash.",
    )
    assert (root / "f").read_bytes() == b"caf\xe9\n"


async def test_half_a_surrogate_pair_is_refused(tool: Tool, root: Path):
    assert await get_refusal(tool, FileScope(), str(root / "f"), "ab\ud800") == Refusal(
        RefusedBy.SEMANTIC,
        "content contains half a surrogate pair at position 2; send whole characters.",
    )


async def test_the_mode_of_an_existing_file_is_kept(tool: Tool, read: Tool, root: Path):
    path, scope = write_file(root / "run.sh", b"old"), FileScope()
    (root / "run.sh").chmod(0o755)
    await call(read, scope, file_path=path)

    await call(tool, scope, file_path=path, content="new")

    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755


async def test_a_link_stays_and_its_target_is_written(tool: Tool, read: Tool, root: Path):
    write_file(root / "real", b"old")
    (root / "link").symlink_to("real")
    scope = FileScope()
    await call(read, scope, file_path=str(root / "real"))

    await call(tool, scope, file_path=str(root / "link"), content="new")

    assert (root / "link").readlink() == Path("real")
    assert (root / "real").read_bytes() == b"new"


async def test_a_dangling_link_stays_and_its_target_is_created(tool: Tool, root: Path):
    (root / "link").symlink_to("sub/real")

    await call(tool, FileScope(), file_path=str(root / "link"), content="new")

    assert (root / "link").is_symlink()
    assert (root / "sub" / "real").read_bytes() == b"new"


async def test_reading_a_path_does_not_permit_a_write_through_a_new_link(root: Path):
    (root / "work" / "folder").mkdir(parents=True)
    (root / "outside").mkdir()
    write_file(root / "outside" / "f", b"theirs")
    tool, scope = WriteTool(Workspace(root / "work")), FileScope()
    path = str(root / "work" / "folder" / "f")
    await call(tool, scope, file_path=path, content="one")
    checked = await tool.check({"file_path": path, "content": "two"}, scope.context())
    (root / "work" / "folder").rename(root / "work" / "moved")
    (root / "work" / "folder").symlink_to(root / "outside")

    result = await tool.run(checked.arguments, scope.context())

    assert result == build_error_result(NOT_READ)
    assert (root / "outside" / "f").read_bytes() == b"theirs"


async def test_special_targets_are_refused(tool: Tool, root: Path):
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    regular = "only regular files can be read or written."

    with fail_after(5):
        fifo = await get_refusal(tool, FileScope(), str(root / "fifo"))
        folder = await get_refusal(tool, FileScope(), str(root / "folder"))
        device = extract_error(await call(tool, FileScope(), file_path="/dev/null", content="x"))

    assert fifo.message == f"{root / 'fifo'} is a FIFO (named pipe); {regular}"
    assert folder.message == f"{root / 'folder'} is a directory; {regular}"
    assert device == f"/dev/null is a character device; {regular}"


async def test_the_check_discloses_nothing_outside_the_workspace(root: Path):
    (root / "work").mkdir()
    tool, path = WriteTool(Workspace(root / "work")), write_file(root / "secret", b"old")

    checked = await tool.check({"file_path": path, "content": "x"}, FileScope().context())
    result = await call(tool, FileScope(), file_path=path, content="x")

    assert checked.arguments == {"file_path": path, "content": "x"}
    assert extract_error(result) == NOT_READ


async def test_without_a_workspace_the_refusal_names_the_flag_to_add():
    tool = WriteTool(Workspace(None, unset_reason="nobody chose"))

    refused = await get_refusal(tool, FileScope(), "/srv/x")

    assert refused == Refusal(
        RefusedBy.SEMANTIC, "no workspace: nobody chose; start the server with --workspace DIR"
    )


async def test_a_write_that_has_begun_is_finished_when_it_is_cancelled(tool: Tool, root: Path):
    path, content = root / "f", "x" * 20_000_000
    checked = await tool.check({"file_path": str(path), "content": content}, FileScope().context())

    with CancelScope() as scope:
        async with create_task_group() as tasks:
            tasks.start_soon(tool.run, checked.arguments, FileScope().context())
            await wait_all_tasks_blocked()
            scope.cancel()

    assert path.stat().st_size == len(content)
    assert [entry.name for entry in root.iterdir()] == ["f"]


def test_write_runs_alone_and_is_not_interrupted(tool: Tool):
    assert (tool.name, tool.interrupt) == ("Write", Interrupt.BLOCK)
    assert tool.decide_sharing({}) is Sharing.EXCLUSIVE
    assert tool.definition["annotations"] == {
        "title": "Write a file",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
@given(
    contents=st.lists(
        st.text(st.characters(codec="utf-8") | st.sampled_from("\r\n")), min_size=2, max_size=4
    )
)
async def test_any_text_comes_back_byte_for_byte(tmp_path: Path, contents: list[str]):
    path = to_real_path(tmp_path) / "f"
    path.unlink(missing_ok=True)
    tool, scope = WriteTool(Workspace(path.parent)), FileScope()

    mark = ""
    for content in contents:
        await call(tool, scope, file_path=str(path), content=content)

        mark = mark or ("\ufeff" if content.startswith("\ufeff") else "")
        assert path.read_bytes() == (mark + content.removeprefix(mark)).encode()
