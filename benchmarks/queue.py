"""What calls cost that wait in a queue: time and memory per call, for more and more of them.

    python -m benchmarks.queue [--most 16000]

Each row adds so many calls of one message to a stream, every seventh of them exclusive, while the
first holds all others back; then they run, through the whole pipeline, and their results are
taken. Linear means that the figures per call do not grow from row to row; the time to queue grows a
little, because Python's garbage collector looks again at what is alive.
"""

import argparse
import gc
import json
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint
from rich.console import Console
from rich.table import Table

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.config import parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.approval import ApprovalReply, CannotAsk, Question
from mcp_dispatch.model.calls import ToolCall
from mcp_dispatch.model.client import NoClient
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import (
    CallContext,
    CheckResult,
    Interrupt,
    Sharing,
    ToolResult,
    Validator,
    build_text_result,
)
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.executor import CallStream
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.settings import Layer, LayerKind, load_settings

FEWEST = 1_000
LIMIT = 10


class AnyArguments:
    def find_problems(self, arguments: Json) -> list[str]:
        return []


@dataclass
class Counter:
    """A tool that counts its calls; the first waits until it is told."""

    go: anyio.Event
    calls: int = 0
    name: str = "Counter"
    rule_name: str = "Counter"
    server: str | None = None
    definition: JsonObject = field(default_factory=lambda: {"name": "Counter"})
    validator: Validator = field(default_factory=AnyArguments)
    output_validator: Validator | None = None
    interrupt: Interrupt = Interrupt.CANCEL
    result_limit: int | None = 1_000

    def decide_sharing(self, arguments: JsonObject) -> Sharing:
        return Sharing.EXCLUSIVE if arguments.get("alone") else Sharing.SHARED

    async def check(self, arguments: JsonObject, context: CallContext) -> CheckResult:
        return CheckResult(arguments)

    async def run(self, arguments: JsonObject, context: CallContext) -> ToolResult:
        if not self.calls:
            await self.go.wait()
        self.calls += 1
        return build_text_result("counted")


class Nobody:
    client = NoClient()

    async def progress(self, params: JsonObject) -> None:
        return None

    async def ask(self, question: Question) -> ApprovalReply:
        return CannotAsk()

    async def wait_until_ready(self) -> None:
        return None


@dataclass(frozen=True)
class Row:
    """Seconds of CPU and bytes, for all calls together."""

    calls: int
    adding: float
    running: float
    queued_bytes: int

    @property
    def micros_per_call(self) -> float:
        return (self.adding + self.running) / self.calls * 1e6

    @property
    def bytes_per_call(self) -> float:
        return self.queued_bytes / self.calls


async def measure(calls: int, folder: Path, *, memory: bool = True) -> Row:
    """`memory` costs time: measure the one or the other."""
    tool = Counter(anyio.Event())
    async with _dispatcher(folder, tool) as dispatcher, anyio.create_task_group() as tasks:
        stream = CallStream(dispatcher, Scope(folder, limit=LIMIT), tasks)
        row = await _measured(stream, tool, calls, memory=memory)
        assert tool.calls == calls
        return row
    raise AssertionError("unreachable")


async def _measured(stream: CallStream, tool: Counter, calls: int, *, memory: bool) -> Row:
    gc.collect()
    if memory:
        tracemalloc.start()
    started = time.process_time()
    for number in range(calls):
        call = ToolCall(str(number), f"u{number}", "Counter", {"alone": number % 7 == 0})
        stream.add(call, Nobody())
    # A turn of the loop for the tasks to begin, and one to reach their places in the queue.
    await checkpoint()
    await checkpoint()
    added = time.process_time()
    queued = tracemalloc.get_traced_memory()[0] if memory else 0
    tracemalloc.stop()
    tool.go.set()
    delivered = [member.index async for member in stream.remaining()]
    assert delivered == list(range(calls))
    return Row(calls, added - started, time.process_time() - added, queued)


@asynccontextmanager
async def _dispatcher(folder: Path, tool: Counter) -> AsyncGenerator[Dispatcher, None]:
    settings_file = folder / "settings.json"
    settings_file.write_text(json.dumps({"permissions": {"allow": ["Counter"]}}), encoding="utf-8")
    settings = load_settings([Layer(LayerKind.FLAG, settings_file)])
    for name in ("journal", "results"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    journal = Journal(folder / "journal")
    async with ProcessGroup() as children:
        config, _ = parse_hooks([])
        hooks = Hooks(config, children, {}, workspace=folder)
        policy = Policy(settings, (folder,), own_directories=(), mode=settings.permissions.mode)
        live = Snapshot(build_registry([tool], ()), hooks, policy)
        yield Dispatcher(
            Services(lambda: live, Approver(), ResultStore(folder / "results"), journal)
        )
    journal.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--most", type=int, default=16_000)
    most: int = parser.parse_args().most
    table = Table("calls", "queue (s)", "run (s)", "µs per call", "KiB queued per call")
    count = FEWEST
    while count <= most:
        with tempfile.TemporaryDirectory() as folder:
            timed = anyio.run(partial(measure, count, Path(folder), memory=False))
            weighed = anyio.run(partial(measure, count, Path(folder)))
        table.add_row(
            f"{count:,}",
            f"{timed.adding:.2f}",
            f"{timed.running:.2f}",
            f"{timed.micros_per_call:.0f}",
            f"{weighed.bytes_per_call / 1024:.1f}",
        )
        count *= 2
    Console().print(table)


if __name__ == "__main__":
    main()
