"""Tests of the watcher that reports changes of settings files."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.settings.watch import FileWatcher


class Changes:
    """Records the content of the file at each notification of the watcher."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self.seen: list[object] = []
        self._next = anyio.Event()

    def record(self) -> None:
        self.seen.append(self._read())
        self._next.set()
        self._next = anyio.Event()

    async def wait_for(self, expected: object) -> None:
        with anyio.fail_after(10):
            while not self.seen or self.seen[-1] != expected:
                await self._next.wait()


def read_text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


LONG_INTERVAL = 60.0
"""An interval longer than any test, so that only events report a change."""

SHORT_INTERVAL = 0.05


@asynccontextmanager
async def watch_file(
    file: Path, *, events: bool = True, seconds: float = LONG_INTERVAL
) -> AsyncGenerator[Changes, None]:
    changes = Changes(lambda: read_text(file))
    watcher = FileWatcher(lambda: [file], use_events=events, poll_seconds=seconds)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watcher.run, changes.record)
        yield changes
        tasks.cancel_scope.cancel()


def overwrite(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def replace(file: Path, text: str) -> None:
    temporary = file.with_name("temporary")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def remove_and_write(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8")


def replace_by_symlink(file: Path, text: str) -> None:
    target = file.with_name(f"target-{text}")
    target.write_text(text, encoding="utf-8")
    link = file.with_name("link")
    link.symlink_to(target)
    link.replace(file)


WRITERS = [overwrite, replace, remove_and_write, replace_by_symlink]


@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("change", WRITERS)
async def test_a_change_is_reported_for_every_way_to_write_the_file(
    tmp_path: Path, change: Callable[[Path, str], None], events: bool
) -> None:
    file = tmp_path / "settings.json"
    file.write_text("one", encoding="utf-8")

    async with watch_file(
        file, events=events, seconds=LONG_INTERVAL if events else SHORT_INTERVAL
    ) as changes:
        await changes.wait_for("one")
        change(file, "two")
        await changes.wait_for("two")
        change(file, "three")
        await changes.wait_for("three")

    assert None not in changes.seen


async def test_a_file_in_a_new_directory_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "settings.json"

    async with watch_file(file) as changes:
        await changes.wait_for(None)
        file.parent.mkdir(parents=True)
        file.write_text("first", encoding="utf-8")
        await changes.wait_for("first")
        file.write_text("second", encoding="utf-8")
        await changes.wait_for("second")


async def test_a_change_of_a_symlink_target_is_reported(tmp_path: Path) -> None:
    target, file = tmp_path / "far" / "real.json", tmp_path / "near" / "settings.json"
    for path in (target, file):
        path.parent.mkdir()
    target.write_text("one", encoding="utf-8")
    file.symlink_to(os.path.relpath(target, file.parent))

    async with watch_file(file) as changes:
        await changes.wait_for("one")
        replace(target, "two")
        await changes.wait_for("two")


async def test_a_change_of_a_symlinked_parent_directory_is_reported(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "settings.json").write_text(name, encoding="utf-8")
    link = tmp_path / "link"
    link.symlink_to("one")

    async with watch_file(link / "inner" / "settings.json", seconds=SHORT_INTERVAL) as changes:
        await changes.wait_for("one")
        new_link = tmp_path / "new_link"
        new_link.symlink_to("two")
        new_link.replace(link)
        await changes.wait_for("two")


async def test_a_deleted_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("one", encoding="utf-8")

    async with watch_file(file) as changes:
        await changes.wait_for("one")
        file.unlink()
        await changes.wait_for(None)


async def test_a_change_of_another_file_in_the_directory_is_not_reported(tmp_path: Path) -> None:
    file, other = tmp_path / "settings.json", tmp_path / "other.txt"
    file.write_text("one", encoding="utf-8")

    async with watch_file(file) as changes:
        await changes.wait_for("one")
        other.write_text("x", encoding="utf-8")
        overwrite(file, "two")
        await changes.wait_for("two")

    assert changes.seen == ["one", "two"]


async def test_a_cancelled_watcher_stops_immediately(tmp_path: Path) -> None:
    with anyio.fail_after(2):
        async with watch_file(tmp_path / "settings.json") as changes:
            await changes.wait_for(None)
