"""The state directory is private to its user, or the server does not start."""

import os
import stat
import sys
from pathlib import Path

import pytest

from mcp_dispatch.fs.state_dir import StateDirectory
from mcp_dispatch.model.errors import StartError

posix = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes are POSIX")
SUBDIRECTORIES = ("results", "journal", "catalogue", "logs", "run")
ADVICE = "remove it, or name another directory with --state-dir"


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def expect_start_error(path: Path) -> str:
    with pytest.raises(StartError) as refused:
        StateDirectory.open(path)
    return str(refused.value)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a directory that belongs to another user."""
    if os.geteuid() != 0:
        return Path("/usr")
    path = tmp_path / "foreign"
    path.mkdir(mode=0o755)
    os.chown(path, 12345, 12345)
    return path


@posix
def test_a_new_state_directory_and_its_subdirectories_are_private(tmp_path: Path) -> None:
    state = StateDirectory.open(tmp_path / "deep" / "state")

    subdirectories = [state.results, state.journal, state.catalogue, state.logs, state.run]
    assert subdirectories == [state.path / name for name in SUBDIRECTORIES]
    assert {read_mode(path) for path in [state.path, *subdirectories]} == {0o700}


def test_opening_it_again_gives_the_same_directory(tmp_path: Path) -> None:
    first = StateDirectory.open(tmp_path / "state")
    (first.results / "kept.txt").write_text("kept", encoding="utf-8")

    again = StateDirectory.open(tmp_path / "state")

    assert again == first
    assert (again.results / "kept.txt").read_text(encoding="utf-8") == "kept"


@posix
def test_an_own_directory_that_others_can_open_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "state"
    (path / "results").mkdir(parents=True)
    path.chmod(0o755)
    (path / "results").chmod(0o777)

    state = StateDirectory.open(path)

    assert (read_mode(state.path), read_mode(state.results)) == (0o700, 0o700)


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    state = StateDirectory.open(Path("state"))

    assert state.path == tmp_path.resolve() / "state"


@pytest.mark.skipif(sys.platform != "linux", reason="XDG directories are Linux")
def test_without_a_path_the_default_of_the_platform_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    state = StateDirectory.open(None)

    assert state.path == tmp_path.resolve() / "mcp-dispatch"


@posix
def test_a_directory_of_another_user_is_refused(foreign: Path) -> None:
    assert expect_start_error(foreign) == (
        f"cannot use the state directory {str(foreign)!r}: it belongs to another user; {ADVICE}"
    )
    assert not (foreign / "results").exists()


@posix
def test_a_link_to_a_directory_of_another_user_is_refused(tmp_path: Path, foreign: Path) -> None:
    link = tmp_path / "state"
    link.symlink_to(foreign)

    assert expect_start_error(link) == (
        f"cannot use the state directory {str(link)!r}: it is a link to {str(foreign)!r}, "
        f"which belongs to another user; {ADVICE}"
    )


@posix
def test_a_subdirectory_that_links_to_a_directory_of_another_user_is_refused(
    tmp_path: Path, foreign: Path
) -> None:
    subdirectory = tmp_path / "state" / "journal"
    subdirectory.parent.mkdir(mode=0o700)
    subdirectory.symlink_to(foreign)

    assert "which belongs to another user" in expect_start_error(tmp_path / "state")


@posix
def test_a_link_to_an_own_directory_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to(tmp_path / "real")

    state = StateDirectory.open(tmp_path / "state")

    assert state.path == (tmp_path / "real").resolve()
    assert read_mode(tmp_path / "real") == 0o700


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_a_directory_that_cannot_be_made_private_is_refused() -> None:
    path = Path("/proc/self/task")

    assert expect_start_error(path) == (
        f"cannot use the state directory {str(path)!r}: others may open it and it cannot be made "
        f"private (Operation not permitted); {ADVICE}"
    )


@posix
def test_a_file_at_the_path_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("", encoding="utf-8")

    assert (
        expect_start_error(path)
        == f"cannot use the state directory {str(path)!r}: File exists; {ADVICE}"
    )
