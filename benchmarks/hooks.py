"""What the hook stages cost: `python -m benchmarks.hooks` prints ratios to a call without them.

The same call of a tool that does nothing goes through the dispatcher: with no hooks configured,
with hooks that are for other tools, and, to compare, past hooks that are not there at all. What a
hook that does run costs here is starting its process, shown for the scale of it.
"""

import gc
import statistics
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import random
from time import process_time

import anyio

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.config import HookSource, parse_hooks
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.calls import CheckedCall, Executed, PostHookResult, PreHookResult, ToolCall
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json
from mcp_dispatch.pipeline.dispatcher import Dispatcher
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services, Snapshot
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.results.store import ResultStore
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import Settings
from tests.support.stand_ins import RecordingTool, ScriptedCaller

ROUNDS = 40
CALLS = 100
GOAL = 1.05
"""The ratio that a call may take with no hooks configured, to one whose hook stages do nothing."""


class Absent(Hooks):
    """Hook stages that do not even look whether there are hooks."""

    async def before(
        self, checked: CheckedCall, circumstances: HookContext, beside: object = None
    ) -> PreHookResult:
        return PreHookResult()

    async def after(self, executed: Executed, circumstances: HookContext) -> PostHookResult:
        return PostHookResult()


def hooks(children: ProcessGroup, matcher: str, count: int) -> Hooks:
    handlers: list[Json] = [
        {"type": "command", "command": "true", "args": [str(at)]} for at in range(count)
    ]
    groups: Json = [{"matcher": matcher, "hooks": handlers}]
    raw: Json = {"PreToolUse": groups, "PostToolUse": groups}
    config, problems = parse_hooks([HookSource(raw, Path("settings.json"))])
    assert problems == ()
    return Hooks(config, children, {"PATH": "/usr/bin:/bin"})


async def calls(dispatcher: Dispatcher, scope: Scope, count: int) -> float:
    """Seconds of this process's own time for one call, on average: machines are shared."""
    caller = ScriptedCaller()
    began = process_time()
    for _ in range(count):
        await dispatcher.dispatch(ToolCall("c", "u", "T", {}), scope, caller)
    return (process_time() - began) / count


async def measure(folder: Path) -> dict[str, list[float]]:
    """The kinds take turns, each round in another order, so that none is always the first."""
    policy = Policy(
        Settings(), (folder,), own_directories=(), mode=PermissionMode.BYPASS_PERMISSIONS
    )
    journal = Journal(folder)
    async with ProcessGroup() as children:
        kinds: dict[str, tuple[Hooks, int]] = {
            "no hook stages": (Absent.create_empty(), CALLS),
            "no hooks configured": (Hooks.create_empty(), CALLS),
            "20 hooks, all for other tools": (hooks(children, "Other|Another", 10), CALLS),
            "2 hooks that run (true)": (hooks(children, "T", 1), 2),
        }
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(ROUNDS):
            for name, (chosen, count) in sorted(kinds.items(), key=lambda _: random()):
                gc.collect()
                live = Snapshot(build_registry([RecordingTool("T")], ()), chosen, policy)
                dispatcher = Dispatcher(
                    Services(
                        partial(_same, live), Approver(), ResultStore(folder / "results"), journal
                    )
                )
                scope = Scope(folder, limit=10)
                times[name].append(await calls(dispatcher, scope, count))
    journal.close()
    return times


def _same(live: Snapshot) -> Snapshot:
    return live


def report(times: dict[str, list[float]]) -> Sequence[str]:
    base = statistics.median(times["no hook stages"])
    lines = [f"{'':<32}{'median':>12}{'ratio':>9}"]
    for name, measured in times.items():
        median = statistics.median(measured)
        lines.append(f"{name:<32}{median * 1e6:>9.1f} µs{median / base:>9.2f}")
    return lines


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        times = anyio.run(measure, Path(folder))
    print("\n".join(report(times)))
    base = statistics.median(times["no hook stages"])
    ratio = statistics.median(times["no hooks configured"]) / base
    print(f"goal: no hooks configured at most {GOAL:g}: {'met' if ratio <= GOAL else 'missed'}")


if __name__ == "__main__":
    main()
