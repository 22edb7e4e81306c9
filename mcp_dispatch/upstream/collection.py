"""All upstreams of this server, each in its own task."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.processes.children import Children
from mcp_dispatch.upstream.opening import Place
from mcp_dispatch.upstream.server import ServerConfig
from mcp_dispatch.upstream.supervisor import Supervisor, Timing


class Upstreams:
    """Entered, every server starts beside the others; left, every one has ended.

    `servers` keeps the order of the configuration. `on_change` may be set at any time; it is
    called, and must return at once, when the tools of any server have changed.
    """

    _tasks: TaskGroup

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        children: Children,
        state_dir: Path,
        environ: Mapping[str, str],
        *,
        cwd: Path | None = None,
        on_change: Callable[[], None] | None = None,
        timing: Timing | None = None,
    ) -> None:
        place = Place(children, state_dir / "logs", environ, cwd or Path.cwd())
        self.on_change = on_change
        self.servers = tuple(
            Supervisor(config, place, timing or Timing(), self._changed) for config in configs
        )

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for server in self.servers:
            self._tasks.start_soon(server.run, name=f"upstream {server.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tasks.cancel_scope.cancel()
        # Not given the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)

    async def settled(self, timeout: float) -> bool:
        """Wait until every server is ready or has failed once; False when `timeout` came first."""
        with anyio.move_on_after(timeout):
            for server in self.servers:
                await server.tried.wait()
            return True
        return False

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()
