"""Files are opened and replaced at the checked path, without following links."""

import json
import os
import resource
import socket
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from anyio import fail_after, to_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_dispatch.fs.safe_open import (
    FileError,
    compute_digest,
    exists,
    load,
    open_regular_file,
    store,
)
from mcp_dispatch.fs.workspace import Workspace, to_real_path
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.tools import FileSeen
from mcp_dispatch.tools.files.edit import EditTool
from mcp_dispatch.tools.files.read import ReadTool
from mcp_dispatch.tools.files.write import WriteTool
from tests.support.file_scope import FileScope, call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return to_real_path(tmp_path)


@contextmanager
def set_umask(mask: int) -> Generator[None, None, None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def limit_file_size(size: int) -> Generator[None, None, None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def expect_open_error(path: Path) -> str:
    with pytest.raises(FileError) as problem, open_regular_file(path):
        pass
    return str(problem.value)


def expect_store_error(path: Path, before: os.stat_result | None = None) -> str:
    with pytest.raises(FileError) as problem:
        store(path, b"new", before)
    return str(problem.value)


def test_a_directory_that_became_a_link_is_not_followed(root: Path):
    (root / "outside").mkdir()
    (root / "outside" / "file").write_bytes(b"secret")
    (root / "folder").symlink_to("outside")
    path = root / "folder" / "file"

    assert expect_open_error(path) == f"{path}: a part of the path is not a directory."
    assert expect_store_error(path) == f"{path}: a part of the path is not a directory."
    assert (root / "outside" / "file").read_bytes() == b"secret"
    assert list_names(root / "outside") == ["file"]


def test_a_file_that_became_a_link_is_not_followed(root: Path):
    (root / "secret").write_bytes(b"secret")
    (root / "file").symlink_to("secret")

    message = (
        f"{root / 'file'} is a symbolic link that appeared just now;"
        " only regular files can be read or written."
    )
    assert expect_open_error(root / "file") == message
    assert expect_store_error(root / "file") == message
    assert (root / "secret").read_bytes() == b"secret"


async def test_special_files_are_refused_without_waiting(root: Path):
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    kinds = {
        root / "fifo": "a FIFO (named pipe)",
        root / "folder": "a directory",
        Path("/dev/zero"): "a character device",
    }

    with fail_after(5):
        for path, kind in kinds.items():
            message = f"{path} is {kind}; only regular files can be read or written."
            for expect_error in (expect_open_error, expect_store_error):
                error = await to_thread.run_sync(expect_error, path, abandon_on_cancel=True)
                assert error == message


def test_a_socket_is_refused():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = to_real_path(Path(folder)) / "socket"
        listener.bind(str(path))

        assert expect_open_error(path) == (
            f"{path} is a socket; only regular files can be read or written."
        )


@pytest.mark.parametrize("path", ["/proc/1/environ", "/proc/kmsg", "/sys/kernel/uevent_seqnum"])
def test_files_of_the_kernel_are_refused(path: str):
    message = f"{path} belongs to the kernel and is not an ordinary file. Use Bash."

    assert expect_open_error(Path(path)) == message
    assert expect_store_error(Path(path)) == message


def test_a_missing_file_does_not_exist_and_cannot_be_opened(root: Path):
    assert not exists(root / "missing")
    assert not exists(root / "no" / "folder" / "either")
    assert expect_open_error(root / "missing") == f"File does not exist: {root / 'missing'}"


def test_a_name_that_is_too_long_is_a_file_error(root: Path):
    path = root / ("x" * 300)

    assert expect_open_error(path) == f"{path}: File name too long."
    assert expect_store_error(path) == f"{path}: File name too long."


def test_store_returns_the_new_state_of_the_file(root: Path):
    seen = store(root / "a" / "b" / "file", b"content", None)

    status = (root / "a" / "b" / "file").stat()
    assert seen == FileSeen(status.st_mtime_ns, 7, compute_digest(b"content"))
    assert load(root / "a" / "b" / "file").content == b"content"


def test_a_new_file_and_its_parents_follow_the_umask(root: Path):
    with set_umask(0o027):
        store(root / "sub" / "file", b"", None)

    assert stat.S_IMODE((root / "sub" / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "sub").stat().st_mode) == 0o750


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o640, 0o666])
def test_the_mode_of_an_existing_file_is_kept(root: Path, mode: int):
    (root / "file").write_bytes(b"old")
    (root / "file").chmod(mode)

    with set_umask(0o077):
        store(root / "file", b"new", (root / "file").stat())

    assert stat.S_IMODE((root / "file").stat().st_mode) == mode


def test_a_set_user_id_bit_does_not_survive_new_content(root: Path):
    (root / "file").write_bytes(b"old")
    (root / "file").chmod(0o4755)

    store(root / "file", b"new", (root / "file").stat())

    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_of_an_existing_file_is_kept_if_permitted(root: Path):
    (root / "file").write_bytes(b"old")
    os.chown(root / "file", 1234, 4321)

    store(root / "file", b"new", (root / "file").stat())

    status = (root / "file").stat()
    assert (status.st_uid, status.st_gid) == (1234, 4321)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(root: Path):
    (root / "file").write_bytes(b"old")
    (root / "file").chmod(0o444)

    assert expect_store_error(root / "file", (root / "file").stat()) == (
        f"{root / 'file'}: permission denied by the file system."
    )
    assert (root / "file").read_bytes() == b"old"


def test_another_hard_link_keeps_the_old_content(root: Path):
    (root / "outside").write_bytes(b"old")
    (root / "file").hardlink_to(root / "outside")

    store(root / "file", b"new", (root / "file").stat())

    assert (root / "file").read_bytes() == b"new"
    assert (root / "outside").read_bytes() == b"old"


def test_a_reader_of_the_old_file_still_gets_the_old_content(root: Path):
    (root / "file").write_bytes(b"old")

    with (root / "file").open("rb") as reader:
        store(root / "file", b"new content", (root / "file").stat())
        assert reader.read() == b"old"

    assert list_names(root) == ["file"]


def test_a_file_that_changed_since_it_was_loaded_is_not_replaced(root: Path):
    (root / "file").write_bytes(b"old")
    before = (root / "file").stat()
    (root / "file").write_bytes(b"theirs")

    assert expect_store_error(root / "file", before) == (
        f"{root / 'file'} was changed by someone else just now. Read it again."
    )
    assert (root / "file").read_bytes() == b"theirs"
    assert list_names(root) == ["file"]


def test_a_file_that_appeared_since_the_check_is_not_replaced(root: Path):
    (root / "file").write_bytes(b"theirs")

    assert expect_store_error(root / "file") == (
        f"{root / 'file'} was changed by someone else just now. Read it again."
    )
    assert (root / "file").read_bytes() == b"theirs"


def test_a_store_that_fails_leaves_the_old_file_and_no_temporary_file(root: Path):
    (root / "file").write_bytes(b"old")

    with limit_file_size(1000), pytest.raises(FileError) as problem:
        store(root / "file", b"x" * 5000, (root / "file").stat())

    assert str(problem.value) == f"{root / 'file'}: File too large."
    assert (root / "file").read_bytes() == b"old"
    assert list_names(root) == ["file"]


def test_a_file_too_large_to_change_is_not_loaded(root: Path):
    with (root / "file").open("wb") as file:
        file.truncate(33 * 1024 * 1024)

    with pytest.raises(FileError) as problem:
        load(root / "file")

    assert str(problem.value) == (
        f"{root / 'file'} has 34603008 bytes; files over 33554432 bytes cannot be changed with"
        " this tool. Use Bash instead."
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None
)
@given(st.binary())
def test_load_returns_the_stored_content(tmp_path: Path, content: bytes):
    path = to_real_path(tmp_path) / "file"
    before = load(path).status if exists(path) else None

    seen = store(path, content, before)

    loaded = load(path)
    assert loaded.content == content
    assert seen == FileSeen(loaded.status.st_mtime_ns, len(content), loaded.digest)


async def test_no_string_makes_a_file_tool_crash_hang_or_write_elsewhere(
    data_dir: Path, root: Path
):
    naughty = json.loads((data_dir / "strings" / "blns.json").read_text(encoding="utf-8"))
    traversal = json.loads((data_dir / "strings" / "path_traversal.json").read_text("utf-8"))
    (root / "work" / "deep").mkdir(parents=True)
    workspace, scope = Workspace(root / "work"), FileScope(root / "work" / "deep")
    read, write, edit = ReadTool(workspace), WriteTool(workspace), EditTool(workspace)

    with fail_after(60):
        for text in [*naughty, *traversal["strings"]]:
            with suppress(Refused):
                await call(read, scope, file_path=text)
                checked = await write.check({"file_path": text, "content": text}, scope.context())
                # Rules decide about paths outside the workspace; this test must not write there.
                if workspace.contains(Path(str(checked.arguments["file_path"]))):
                    await call(write, scope, file_path=text, content=text)
            with suppress(Refused):
                await call(edit, scope, file_path=text, old_string=text, new_string="x")

    assert list_names(root) == ["work"]
