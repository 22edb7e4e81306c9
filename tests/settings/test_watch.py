"""Settings files are noticed when they change, by whatever means they do."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from mcp_dispatch.settings.watch import FileWatcher


class Changes:
    """What the watch has called; each look waits for the next one."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self.seen: list[object] = []
        self._next = anyio.Event()

    def note(self) -> None:
        self.seen.append(self._read())
        self._next.set()
        self._next = anyio.Event()

    async def until(self, expected: object) -> None:
        with anyio.fail_after(10):
            while not self.seen or self.seen[-1] != expected:
                await self._next.wait()


def text_of(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


SELDOM = 60.0
"""Too seldom to notice anything in a test: only events can."""

OFTEN = 0.05


@asynccontextmanager
async def watching(
    file: Path, *, events: bool = True, seconds: float = SELDOM
) -> AsyncGenerator[Changes, None]:
    changes = Changes(lambda: text_of(file))
    watch = FileWatcher(lambda: [file], use_events=events, poll_seconds=seconds)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run, changes.note)
        yield changes
        tasks.cancel_scope.cancel()


def overwrite(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def replace(file: Path, text: str) -> None:
    beside = file.with_name("beside")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def remove_and_write(file: Path, text: str) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8")


def point_elsewhere(file: Path, text: str) -> None:
    target = file.with_name(f"target-{text}")
    target.write_text(text, encoding="utf-8")
    link = file.with_name("link")
    link.symlink_to(target)
    link.replace(file)


WAYS = [overwrite, replace, remove_and_write, point_elsewhere]


@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("change", WAYS)
async def test_a_change_is_noticed_however_the_file_is_written(
    tmp_path: Path, change: Callable[[Path, str], None], events: bool
) -> None:
    file = tmp_path / "settings.json"
    file.write_text("one", encoding="utf-8")

    async with watching(file, events=events, seconds=SELDOM if events else OFTEN) as changes:
        await changes.until("one")
        change(file, "two")
        await changes.until("two")
        change(file, "three")
        await changes.until("three")

    assert None not in changes.seen


async def test_a_file_whose_directory_does_not_exist_yet_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "settings.json"

    async with watching(file) as changes:
        await changes.until(None)
        file.parent.mkdir(parents=True)
        file.write_text("first", encoding="utf-8")
        await changes.until("first")
        file.write_text("second", encoding="utf-8")
        await changes.until("second")


async def test_a_change_behind_a_link_is_noticed(tmp_path: Path) -> None:
    far, file = tmp_path / "far" / "real.json", tmp_path / "near" / "settings.json"
    for each in (far, file):
        each.parent.mkdir()
    far.write_text("one", encoding="utf-8")
    file.symlink_to(os.path.relpath(far, file.parent))

    async with watching(file) as changes:
        await changes.until("one")
        replace(far, "two")
        await changes.until("two")


async def test_a_directory_on_the_way_that_is_a_link_can_be_turned(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "settings.json").write_text(name, encoding="utf-8")
    way = tmp_path / "way"
    way.symlink_to("one")

    async with watching(way / "inner" / "settings.json", seconds=OFTEN) as changes:
        await changes.until("one")
        turned = tmp_path / "turned"
        turned.symlink_to("two")
        turned.replace(way)
        await changes.until("two")


async def test_a_file_that_is_gone_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("one", encoding="utf-8")

    async with watching(file) as changes:
        await changes.until("one")
        file.unlink()
        await changes.until(None)


async def test_other_files_beside_it_are_nobodys_business(tmp_path: Path) -> None:
    file, other = tmp_path / "settings.json", tmp_path / "other.txt"
    file.write_text("one", encoding="utf-8")

    async with watching(file) as changes:
        await changes.until("one")
        other.write_text("x", encoding="utf-8")
        overwrite(file, "two")
        await changes.until("two")

    assert changes.seen == ["one", "two"]


async def test_the_watch_ends_at_once_when_it_is_no_longer_wanted(tmp_path: Path) -> None:
    with anyio.fail_after(2):
        async with watching(tmp_path / "settings.json") as changes:
            await changes.until(None)
