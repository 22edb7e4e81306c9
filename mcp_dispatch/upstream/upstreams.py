"""All upstreams of this server, each in its own task."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup

from mcp_dispatch.model.client import Respondent
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.processes.children import Children
from mcp_dispatch.upstream.cache import Changed, Dossier, Memory
from mcp_dispatch.upstream.config.model import Launch, ServerConfig
from mcp_dispatch.upstream.definition_diff import Change
from mcp_dispatch.upstream.handshake import Greeting, carried
from mcp_dispatch.upstream.lifecycle import Timing
from mcp_dispatch.upstream.requests.relay import OnNotice, Roots, no_roots, nobody_listens
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.upstream.tool import Expose, HeldBack, Offer, UpstreamTool, offer_of
from mcp_dispatch.upstream.transports.open import Place
from mcp_dispatch.upstream.transports.process import child_environment

HOLD_SECONDS: Final = 5.0
"""How long servers whose tools are known wait for a client that does not list any tools."""


class Upstreams:
    """Entered, every server starts beside the others; left, every one has ended. A server that
    `memory` knows waits until `release`, so that what it offers can be told before it is there.

    `servers` keeps the order of the configuration. `on_change` may be set at any time; it is
    called, and must return at once, when the tools of any server have changed.
    """

    _tasks: TaskGroup | None = None

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        children: Children,
        state_dir: Path,
        environ: Mapping[str, str],
        *,
        cwd: Path | None = None,
        on_change: Callable[[], None] | None = None,
        on_definitions_changed: Changed | None = None,
        timing: Timing | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._place = Place(children, state_dir / "logs", environ, cwd or Path.cwd())
        self._timing = timing or Timing()
        self._scopes: dict[Supervisor, anyio.CancelScope] = {}
        self._memory = memory
        self._hold = anyio.Event()
        self._own: dict[tuple[Supervisor, str], Supervisor] = {}
        self.on_change = on_change
        self.on_offers_changed: Callable[[str], None] = lambda _: None
        """Told what has changed at some server: `resources` or `prompts`."""

        self.on_notice: OnNotice = nobody_listens
        self.roots: Roots = no_roots
        self.on_definitions_changed = on_definitions_changed
        self.servers = tuple(self._supervisor(config) for config in configs)

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        for server in self.servers:
            self._start(server)
        self.release(HOLD_SECONDS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        # Not given the error: a task group would wrap it.
        await self._tasks.__aexit__(None, None, None)
        self._tasks = None

    def use(
        self, configs: Sequence[ServerConfig], environ: Mapping[str, str], cwd: Path | None
    ) -> None:
        """From now on these servers. One whose entry stays as it was, and that would start with
        the same environment in the same place, just goes on; one that is left out or replaced
        ends when the calls that it runs have ended."""
        before = {server.name: server for server in self.servers}
        place = replace(self._place, environ=environ, cwd=cwd or Path.cwd())
        stays = {
            config.name
            for config in configs
            if config.name in before and self._same(before[config.name].config, config, place)
        }
        self._place = place
        self.servers = tuple(
            before[config.name] if config.name in stays else self._supervisor(config)
            for config in configs
        )
        for name, server in before.items():
            if name not in stays:
                self._retire(server)
        for server in self.servers:
            if server.name not in stays:
                self._start(server)

    def _same(self, before: ServerConfig, after: ServerConfig, place: Place) -> bool:
        if before != after:
            return False
        if not isinstance(after.reach, Launch):
            return True
        seen = (child_environment(after.reach, each.environ) for each in (self._place, place))
        return (
            self._place.cwd == place.cwd
            and len({tuple(sorted(each.items())) for each in seen}) == 1
        )

    def _supervisor(self, config: ServerConfig) -> Supervisor:
        dossier = Dossier(config, self._memory, self._definitions_changed)
        hold = anyio.Event() if config.lazy else self._hold
        return self._connected(
            Supervisor(config, self._place, self._timing, self._changed, dossier, hold)
        )

    def _start(self, server: Supervisor) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._run, server, name=f"upstream {server.name}")

    async def _run(self, server: Supervisor) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[server] = scope
            await server.run()

    def _retire(self, server: Supervisor) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._end, server, name=f"end of upstream {server.name}")

    async def _end(self, server: Supervisor) -> None:
        await server.calls.none()
        for key in [key for key in self._own if key[0] is server]:
            self._retire(self._own.pop(key))
        scope = self._scopes.pop(server, None)
        if scope is not None:
            scope.cancel()

    def release(self, delay: float = 0.0) -> None:
        """Servers that wait may start, after `delay` seconds; lazy ones go on waiting for a call."""
        if self._tasks is None or not delay:
            self._hold.set()
        elif not self._hold.is_set():
            self._tasks.start_soon(self._release, delay)

    async def _release(self, delay: float) -> None:
        await anyio.sleep(delay)
        self._hold.set()

    def _serving(self, server: Supervisor, respondent: Respondent) -> Supervisor:
        """Opened when it is first needed; ended with the scope."""
        if server.config.connection == "shared":
            return server
        own = self._own.get((server, respondent.scope))
        if own is None:
            own = Supervisor(server.config, self._place, self._timing, lambda: None)
            own.relay.on_notice, own.relay.roots = server.relay.on_notice, server.relay.roots
            client = respondent.client
            own.greeting = Greeting(carried(client.capabilities), modern_first=not client.live)
            own.on_offers_changed = partial(self._heard_by_own, server)
            self._own[server, respondent.scope] = own
            self._start(own)
        return own

    def _heard_by_own(self, server: Supervisor, what: str) -> None:
        """What a server offers is read on the connection that is everybody's."""
        self.on_offers_changed(what)
        server.list_again(what)

    def end_scope(self, scope: str) -> None:
        """Its connections are needed no more."""
        for server, owner in [key for key in self._own if key[1] == scope]:
            self._retire(self._own.pop((server, owner)))

    async def settled(self, timeout: float) -> bool:
        """Wait until every server is known, is ready, or has failed once; False when `timeout` came
        first."""
        with anyio.move_on_after(timeout):
            for server in self.servers:
                if not server.dossier.seen:
                    await server.tried.wait()
            return True
        return False

    async def until(self, found: Callable[[], bool], timeout: float) -> None:
        """Wait until `found`, which may hold once a server is there, or until every server that is
        not lazy has been tried."""
        if found():
            return

        async def look(server: Supervisor) -> None:
            await server.tried.wait()
            if found():
                tasks.cancel_scope.cancel()

        with anyio.move_on_after(timeout):
            async with anyio.create_task_group() as tasks:
                for server in self.servers:
                    if server.nudge():
                        tasks.start_soon(look, server)

    def roots_changed(self) -> None:
        for server in self.servers:
            server.roots_changed()

    def _connected(self, server: Supervisor) -> Supervisor:
        server.on_offers_changed = lambda what: self.on_offers_changed(what)
        server.relay.on_notice = lambda notice: self.on_notice(notice)
        server.relay.roots = lambda: self.roots()
        server.serving = lambda respondent: self._serving(server, respondent)
        return server

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _definitions_changed(self, server: str, changes: tuple[Change, ...]) -> None:
        if self.on_definitions_changed is not None:
            self.on_definitions_changed(server, changes)


Say = Callable[[HeldBack], None]


class Catalogue:
    """`say` is told once of each tool that is held back or odd, for as long as it stays so."""

    def __init__(self, expose: Expose, say: Say) -> None:
        self._expose = expose
        self._say = say
        self._said: dict[str, frozenset[HeldBack]] = {}
        self._learnt: dict[str, tuple[Supervisor, tuple[JsonObject, ...], Offer]] = {}

    def tools(self, servers: Iterable[Supervisor]) -> list[UpstreamTool]:
        """In the order of the configuration."""
        return [tool for server in servers for tool in self.offer(server).tools]

    def offer(self, server: Supervisor) -> Offer:
        learnt = self._learnt.get(server.name)
        if learnt is not None and learnt[0] is server and learnt[1] is server.tools:
            return learnt[2]
        offer = offer_of(server, self._expose)
        self._learnt[server.name] = (server, server.tools, offer)
        self._report(server.name, frozenset((*offer.held_back, *offer.notes)))
        return offer

    def _report(self, server: str, found: frozenset[HeldBack]) -> None:
        for each in sorted(found - self._said.get(server, frozenset()), key=str):
            self._say(each)
        self._said[server] = found
