"""Stored results: complete, private, named by their content."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.results.store import CannotStore, ResultStore, StoredResult

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and signals are POSIX")


@given(st.binary(max_size=4096))
def test_the_stored_bytes_are_the_original_bytes(content: bytes) -> None:
    with TemporaryDirectory() as directory:
        stored = ResultStore(Path(directory)).save(content, ".bin")

        assert stored.path.read_bytes() == content
        assert stored.size == len(content)


@given(st.text(alphabet=st.characters(), max_size=300))
def test_any_text_is_stored_in_utf_8_lone_surrogates_included(text: str) -> None:
    with TemporaryDirectory() as directory:
        stored = ResultStore(Path(directory)).save(text)

        assert stored.path.read_bytes().decode("utf-8", "surrogatepass") == text


@posix
def test_a_stored_file_is_private_and_named_by_its_content(tmp_path: Path) -> None:
    stored = ResultStore(tmp_path).save("hello")

    name = sha256(b"hello").hexdigest()[:32]
    assert stored == StoredResult(name, tmp_path / f"{name}.txt", 5)
    assert stat.S_IMODE(stored.path.stat().st_mode) == 0o600


def test_equal_content_is_one_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)

    first, again, other = store.save("same"), store.save(b"same"), store.save("other")

    assert first == again
    assert set(tmp_path.iterdir()) == {first.path, other.path}


def test_delivering_a_result_again_resets_the_age_of_its_file(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    stored = store.save("hello")
    os.utime(stored.path, (1, 1))

    store.save("hello")

    assert stored.path.stat().st_mtime > time.time() - 60


def test_a_truncated_file_is_written_again(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    stored = store.save("the whole of it")
    stored.path.write_bytes(b"the wh")

    store.save("the whole of it")

    assert stored.path.read_bytes() == b"the whole of it"


@posix
def test_a_link_planted_under_the_final_name_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("hello", encoding="utf-8")
    results = tmp_path / "results"
    results.mkdir()
    planted = results / f"{sha256(b'hello').hexdigest()[:32]}.txt"
    planted.symlink_to(victim)

    stored = ResultStore(results).save("hello")

    assert stored.path == planted
    assert not planted.is_symlink()
    assert victim.read_text(encoding="utf-8") == "hello"


@pytest.mark.parametrize("suffix", ["", "txt", "/../x", ".a/b", ".TXT", "..", ".\x00", ".a" * 9])
def test_a_suffix_cannot_contain_a_path(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(suffix))):
        ResultStore(tmp_path).save("hello", suffix)


def test_nothing_is_stored_where_the_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(CannotStore, match="File exists"):
        ResultStore(tmp_path / "file").save("hello")


FULL_DISK = """
import resource, sys
from pathlib import Path
from mcp_dispatch.results.store import CannotStore, ResultStore
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    ResultStore(Path(sys.argv[1])).save("x" * 5000)
except CannotStore as problem:
    sys.exit(f"cannot keep: {problem}")
"""


@posix
def test_a_result_that_cannot_be_written_completely_leaves_no_file(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert ended.stderr == "cannot keep: File too large\n"
    assert list(tmp_path.iterdir()) == []


ENDLESS_WRITER = """
import sys
from pathlib import Path
from mcp_dispatch.results.store import ResultStore
store = ResultStore(Path(sys.argv[1]))
for number in range(10**9):
    store.save(f"{number}\\n" * 200_000)
    print(number, flush=True)
"""


@posix
@pytest.mark.parametrize("results_first", [1, 2, 3, 5])
def test_a_killed_writer_leaves_no_truncated_file_under_a_final_name(
    tmp_path: Path, results_first: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS_WRITER, tmp_path], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        for _ in range(results_first):
            writer.stdout.readline()

        writer.send_signal(signal.SIGKILL)
        assert writer.wait(timeout=10) == -signal.SIGKILL

    finished = list(tmp_path.glob("*.txt"))
    assert len(finished) >= results_first
    for path in finished:
        assert path.stem == sha256(path.read_bytes()).hexdigest()[:32]


def test_partial_files_of_killed_writers_are_removed_when_they_are_old(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    stored = store.save("hello")
    old, young = tmp_path / ".old.partial", tmp_path / ".young.partial"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    os.utime(stored.path, (1, 1))

    assert store.remove_abandoned() == 1

    assert set(tmp_path.iterdir()) == {young, stored.path}
