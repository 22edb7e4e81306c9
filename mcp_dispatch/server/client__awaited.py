"""Work for a request, for as long as somebody waits for its answer."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from mcp.shared.exceptions import MCPError

REQUEST_CANCELLED = -32800

T = TypeVar("T")


async def while_awaited(over: anyio.Event | None, work: Callable[[], Awaitable[T]]) -> T:
    """`over` is set when nobody waits any more; None where the SDK itself notices that."""
    if over is None:
        return await work()
    results: list[T] = []
    failures: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await over.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave)
        try:
            results.append(await work())
        except Exception as failure:  # raised below: a task group would wrap it
            failures.append(failure)
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not results:
        raise MCPError(REQUEST_CANCELLED, "the call was cancelled: the server is stopping")
    return results[0]
