"""One task per upstream: it owns the process from start to end and starts it again when it dies."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import anyio

from mcp_dispatch.model.client import Respondent, Unfinished
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.child import CannotStart
from mcp_dispatch.upstream.cache import Dossier
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import ConnectionLost, NotTaken, UpstreamError
from mcp_dispatch.upstream.handshake import Greeting
from mcp_dispatch.upstream.lifecycle import Standing, State, Timing
from mcp_dispatch.upstream.pagination import Listing
from mcp_dispatch.upstream.requests.open_calls import OpenCalls
from mcp_dispatch.upstream.requests.relay import Relay
from mcp_dispatch.upstream.requests.request import Errand
from mcp_dispatch.upstream.requests.send import Asked, Life, check, drive, not_taken, send
from mcp_dispatch.upstream.resources import Shelf
from mcp_dispatch.upstream.tool_schemas import Validators
from mcp_dispatch.upstream.transports.base import Transport
from mcp_dispatch.upstream.transports.open import Place, opened
from mcp_dispatch.upstream.transports.process import StderrLog

logger = logging.getLogger(__name__)


class Supervisor:
    """One upstream, watched. Whatever befalls it stays here: `run` raises nothing."""

    def __init__(
        self,
        config: ServerConfig,
        place: Place,
        timing: Timing,
        on_change: Callable[[], None],
        dossier: Dossier | None = None,
        hold: anyio.Event | None = None,
    ) -> None:
        """A server whose tools are known is not started before `hold` is set or it is called."""
        self.config = config
        self.dossier = dossier or Dossier(config, None)
        self.tools: tuple[JsonObject, ...] = () if config.disabled else self.dossier.known.tools
        self.validators = Validators()
        for tool, schema, refused in self.dossier.known.verdicts:
            self.validators.recall(tool, schema, refused)
        for tool, schema, refused in self.dossier.known.output_verdicts:
            self.validators.outputs.recall(tool, schema, refused)
        self.calls = OpenCalls(config)
        self.noise = 0
        self.tried = anyio.Event()
        self._place = place
        self._timing = timing
        self._on_change = on_change
        self._log = StderrLog(place.logs, config.name)
        self.relay = Relay(config.name)
        self.greeting = Greeting()
        self.serving: Callable[[Respondent], Supervisor] = lambda _: self
        """Who speaks with the server for this client: another where each scope has a connection."""
        self.shelf = Shelf(config.name, self._offers_changed)
        self.on_offers_changed: Callable[[str], None] = lambda _: None
        """Told what has changed: `resources` or `prompts`."""
        self._relist = anyio.Event()
        self._hold = hold if self.dossier.seen and not config.disabled else None
        self._standing = Standing(config, timing, self._log.path, held=self._hold is not None)
        self._announced = False

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def log(self) -> Path:
        return self._log.path

    @property
    def state(self) -> State:
        return self._standing.state

    @property
    def problem(self) -> str | None:
        return self._standing.problem

    @property
    def alive(self) -> bool:
        return self._standing.life is not None

    # -- calls

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        meta: JsonObject,
        progress: Progress | None,
        alone: bool = False,
    ) -> JsonObject | ProtocolError:
        """What the server answered. Carried out at most once. Raises `CallFailed`."""
        params: JsonObject = {"name": tool, "arguments": arguments}
        async with self.calls.one(alone=alone):
            return await self.request(Asked("tools/call", params, tool, meta, progress))

    async def request(self, request: Asked) -> JsonObject | ProtocolError:
        """As `call`, for any method."""
        life = await self._standing.alive()
        check(request, self.tools, self.name)
        try:
            return await send(life, request, self.config, self._timing.patience)
        except NotTaken as error:
            if not await life.has_ended(self._timing.patience):
                raise not_taken(error, self.name) from error
        life = await self._standing.alive()
        check(request, self.tools, self.name)
        try:
            return await send(life, request, self.config, self._timing.patience)
        except NotTaken as error:
            raise not_taken(error, self.name) from error

    async def fresh(self) -> None:
        """A server whose tools are only known from before is started, and asked for them."""
        if self.state is State.IDLE:
            self._standing.wake()
        if self.dossier.seen and self.state is not State.DISABLED:
            with anyio.move_on_after(self._timing.patience):
                await self.tried.wait()

    async def carry(
        self, request: Asked, respondent: Respondent, *, alone: bool = False
    ) -> JsonObject | ProtocolError | Unfinished:
        """As `request`, with somebody to answer the questions that the server has meanwhile."""
        server = self.serving(respondent)
        if server is not self:
            return await server.carry(request, respondent, alone=alone)
        errand = Errand(respondent, request.progress)
        told = errand.tell if request.progress is not None else None
        asked = replace(request, progress=told, errand=errand)

        async def ask(params: JsonObject) -> JsonObject | ProtocolError:
            return await self.request(replace(asked, params=params))

        async def work(errand: Errand) -> JsonObject | ProtocolError:
            async with self.calls.one(alone=alone):
                return await drive(ask, request.params, errand, self.name, self.relay.roots)

        return await errand.carry(work, self._place.children.beside)

    def roots_changed(self) -> None:
        """The directories that the server may know of are others now."""
        self._place.children.beside(self._tell_of_roots)

    async def _tell_of_roots(self) -> None:
        life = self._standing.life
        if life is not None and not life.connection.modern:
            await life.connection.notify("notifications/roots/list_changed")

    def look_again(self) -> None:
        """Its list may be out of date: it is asked for once more."""
        self._relist.set()

    # -- the one task

    async def run(self) -> None:
        """Keeps the server going until cancelled."""
        if self.state is State.DISABLED:
            self.tried.set()
            return
        if self._hold is not None:
            await self._standing.wanted(self._hold)
        while True:
            self._relist = anyio.Event()
            self._standing.begin()
            problem = await self._attempt()
            self._fall(problem)
            delay = self._standing.delay()
            await self._standing.rest(delay if self.config.restart else None)

    def nudge(self) -> bool:
        """Has a server that waits to be started start, unless it is lazy; whether `tried` comes."""
        if self.state is State.IDLE:
            if self.config.lazy:
                return False
            self._standing.wake()
        return True

    async def _attempt(self) -> str:
        """From start to end; returns why it ended."""
        try:
            async with opened(self.config, self._place, self._log, self._heard_noise) as transport:
                problem = await self._speak(transport)
                # Told before a process is cleared away, which may take a while.
                self._fall(problem)
                return problem
        except CannotStart as error:
            return f"cannot be started: {error.problem}"
        except NotTaken as error:
            return str(error)
        except OSError as error:
            return f"cannot be started: {self._log.path}: {error.strerror}"
        except Exception as error:  # the boundary: one server's trouble never reaches another
            logger.exception("upstream %s failed", self.name)
            return f"failed unexpectedly: {type(error).__name__}: {error}"

    async def _speak(self, transport: Transport) -> str:
        life = Life(Connection(transport, self._list_changed, self.relay, self.greeting))
        try:
            async with anyio.create_task_group() as tasks:
                await tasks.start(life.connection.run)
                tasks.start_soon(self._keep_listed, life)
                tasks.start_soon(self._keep_offers, life)
                life.end = await self._serve(life) or await transport.end(self._timing.exit)
                tasks.cancel_scope.cancel()
        finally:
            life.ended.set()
        return life.end

    async def _serve(self, life: Life) -> str | None:
        """Until the connection is over; returns why, where it was not the transport that ended."""
        connection, timing = life.connection, self._timing
        try:
            await connection.handshake(self.config.connect_timeout)
            listing = await connection.list_tools(timing.listing)
        except TimeoutError:
            if not connection.version:
                return f"did not answer within {self.config.connect_timeout:g} s"
            return f"did not answer 'tools/list' within {timing.listing:g} s"
        except ConnectionLost:
            return None
        except UpstreamError as error:
            return str(error)
        self._rise(life, listing)
        await connection.over.wait()
        return None

    async def _keep_listed(self, life: Life) -> None:
        await life.ready.wait()
        while True:
            await self._relist.wait()
            self._relist = anyio.Event()
            await self._list_again(life.connection)
            # A server may announce a change whenever it is asked for its list.
            await self._timing.pause(self._timing.relist)

    async def _keep_offers(self, life: Life) -> None:
        await life.ready.wait()
        await self.shelf.keep(life.connection)

    async def _list_again(self, connection: Connection) -> None:
        try:
            announced, self._announced = self._announced, False
            listing = await connection.list_tools(self._timing.listing)
            self._take(listing, announced=announced)
        except TimeoutError:
            self._standing.become(
                State.DEGRADED, "did not answer 'tools/list'; its old list is kept"
            )
        except ConnectionLost:
            return
        except UpstreamError as error:
            self._standing.become(State.DEGRADED, f"{error}; its old list is kept")

    # -- what others see

    def _rise(self, life: Life, listing: Listing) -> None:
        self._standing.rise(life)
        self._take(listing)
        self.tried.set()

    def _take(self, listing: Listing, *, announced: bool = False) -> None:
        # Compared as text: 1, 1.0 and true are equal in Python and not in a schema.
        changed = repr(listing.tools) != repr(self.tools)
        if changed:
            self.tools = listing.tools
        self.dossier.learn(listing)
        self._standing.become(
            State.READY if listing.problem is None else State.DEGRADED, listing.problem
        )
        if changed:
            self._on_change()
        elif announced:
            # Where the server says so, it is so, though its list may look the same to us.
            self.on_offers_changed("tools")

    def _fall(self, problem: str) -> None:
        if self.state is not State.DOWN:
            self._standing.fall(problem)
            self.dossier.failed(problem)
            self.tried.set()
            logger.warning("upstream %s %s", self.name, problem)

    def list_again(self, what: str) -> None:
        """Its `tools`, `resources` or `prompts` may be others now."""
        if what == "tools":
            self._relist.set()
        else:
            self.shelf.refresh(what)

    def _list_changed(self, what: str) -> None:
        if what == "tools":
            self._announced = True
            self._relist.set()
        else:
            self.shelf.changed(what)

    def _offers_changed(self, what: str) -> None:
        self.on_offers_changed(what)

    def _heard_noise(self, kind: str, head: bytes) -> None:
        self.noise += 1
        self._log.write(b"[no message, " + kind.encode("ascii") + b"] " + head + b"\n")
