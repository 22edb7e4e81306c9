"""Retention of stored results, with several processes in the same directory."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mcp_dispatch.results.locks import hold_shared_lock, is_locked, lock_open_file
from mcp_dispatch.results.retention import (
    PruneResult,
    Retention,
    list_result_files,
    prune,
    remove_all,
)
from mcp_dispatch.results.store import CannotStore, ResultStore

DAY = 24 * 60 * 60

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks are POSIX")


def save_with_age(store: ResultStore, text: str, days_ago: float) -> Path:
    path = store.save(text).path
    then = time.time() - days_ago * DAY
    os.utime(path, (then, then))
    return path


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path, Retention(days=1_000_000))


def test_results_past_their_age_are_removed(store: ResultStore) -> None:
    old, young = save_with_age(store, "old", 31), save_with_age(store, "young", 29)

    done = prune(store.directory, Retention(days=30))

    assert [each.path for each in done.removed] == [old]
    assert [each.path for each in list_result_files(store.directory)] == [young]


def test_the_oldest_results_are_removed_first_when_the_total_is_exceeded(
    store: ResultStore,
) -> None:
    paths = [save_with_age(store, str(number) * 100, number) for number in range(5)]

    done = prune(store.directory, Retention(total_bytes=300))

    assert [each.path for each in done.removed] == [paths[4], paths[3]]
    assert [each.path for each in list_result_files(store.directory)] == paths[:3]


def test_old_results_are_removed_before_a_new_one_is_stored(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, Retention(total_bytes=1000))
    old, young = save_with_age(store, "a" * 400, 2), save_with_age(store, "b" * 400, 1)

    new = store.save("c" * 400).path

    assert not old.exists()
    assert {young, new} == set(tmp_path.iterdir())


def test_a_result_larger_than_the_total_is_not_stored_and_removes_no_other(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, Retention(total_bytes=1000))
    other = store.save("a" * 900).path

    with pytest.raises(CannotStore, match="larger than all results together may be"):
        store.save("b" * 1001)

    assert list(tmp_path.iterdir()) == [other]


def test_many_results_stay_within_the_total(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, Retention(total_bytes=50_000))

    for number in range(200):
        store.save(f"{number}\n" * 1_000)
        assert sum(each.size for each in list_result_files(tmp_path)) <= 50_000


def test_other_files_in_the_directory_are_not_removed(store: ResultStore, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine", encoding="utf-8")
    os.utime(notes, (1, 1))
    folder = tmp_path / ("a" * 32 + ".txt")
    folder.mkdir()
    os.utime(folder, (1, 1))

    assert prune(tmp_path, Retention()) == PruneResult()
    assert remove_all(tmp_path) == PruneResult()

    assert notes.exists()
    assert folder.exists()


@posix
def test_a_result_that_is_being_read_is_not_removed(store: ResultStore) -> None:
    path = save_with_age(store, "old", 100)
    descriptor = os.open(path, os.O_RDONLY)
    lock_open_file(descriptor)
    os.utime(path, (1, 1))

    while_read = prune(store.directory, Retention())
    os.close(descriptor)
    after = prune(store.directory, Retention())

    assert [each.path for each in while_read.in_use] == [path]
    assert while_read.removed == ()
    assert [each.path for each in after.removed] == [path]


def test_reading_a_result_resets_its_age(store: ResultStore) -> None:
    path = save_with_age(store, "old", 100)
    descriptor = os.open(path, os.O_RDONLY)
    lock_open_file(descriptor)
    os.close(descriptor)

    assert prune(store.directory, Retention()) == PruneResult()
    assert path.exists()


HOLDER = """
import os, sys
from mcp_dispatch.results.locks import lock_open_file
descriptor = os.open(sys.argv[1], os.O_RDONLY)
lock_open_file(descriptor)
os.utime(sys.argv[1], (1, 1))
print("reading", flush=True)
sys.stdin.read()
"""


@posix
def test_a_result_that_another_process_reads_is_kept_until_that_process_ends(
    store: ResultStore,
) -> None:
    path = save_with_age(store, "old", 100)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"reading\n"

        held = is_locked(path)
        while_read = prune(store.directory, Retention())
        reader.kill()
        reader.wait(timeout=10)

    assert held
    assert while_read.removed == ()
    assert [each.path for each in prune(store.directory, Retention()).removed] == [path]


PRUNER = """
import sys
from pathlib import Path
from mcp_dispatch.results.retention import Retention, prune
print("ready", flush=True)
while True:
    prune(Path(sys.argv[1]), Retention(days=1e-9))
"""


@posix
def test_a_result_exists_during_its_delivery_while_another_process_prunes(tmp_path: Path) -> None:
    """Another process removes all results in a loop."""
    store = ResultStore(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PRUNER, tmp_path], stdout=subprocess.PIPE
    ) as pruner:
        assert pruner.stdout is not None
        pruner.stdout.readline()
        for number in range(50):
            name = store.save(f"result {number}").path
            with hold_shared_lock(tmp_path):
                there = name.exists()
                assert not there or name.read_text(encoding="utf-8") == f"result {number}"
        pruner.kill()
        pruner.wait(timeout=10)
