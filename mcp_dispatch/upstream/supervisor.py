"""One task per upstream: it owns the process from start to end and starts it again when it dies."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Final

import anyio

from mcp_dispatch.model.clients import Respondent, Unfinished
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import Progress
from mcp_dispatch.processes.errors import CannotStart
from mcp_dispatch.upstream.backoff import Backoff
from mcp_dispatch.upstream.circuit import Circuit, Tolerance
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.dossier import Dossier
from mcp_dispatch.upstream.errand import Errand
from mcp_dispatch.upstream.errors import (
    CallFailed,
    ConnectionLost,
    NotTaken,
    RequestLost,
    UpstreamError,
)
from mcp_dispatch.upstream.handshake import Greeting
from mcp_dispatch.upstream.listing import Listing
from mcp_dispatch.upstream.open_calls import OpenCalls
from mcp_dispatch.upstream.opening import Place, opened
from mcp_dispatch.upstream.patience import Silence
from mcp_dispatch.upstream.relay import Relay
from mcp_dispatch.upstream.rounds import drive
from mcp_dispatch.upstream.server import ServerConfig
from mcp_dispatch.upstream.shelf import Shelf
from mcp_dispatch.upstream.stderr_log import StderrLog
from mcp_dispatch.upstream.transport import Transport
from mcp_dispatch.upstream.validators import Validators

logger = logging.getLogger(__name__)

_NOT_REPEATED: Final = (
    "The call was not repeated: check whether it took effect before you try again."
)


class State(Enum):
    IDLE = "idle"
    """Its tools are known from before; it has not been started yet."""
    CONNECTING = "connecting"
    READY = "ready"
    DEGRADED = "degraded"
    """Takes calls, but its list of tools is incomplete or could not be refreshed."""
    DOWN = "down"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, and the clock that counts them. `patience` is how long a call waits to be sent."""

    patience: float = 30.0
    listing: float = 30.0
    exit: float = 0.5
    relist: float = 1.0
    backoff: Backoff = field(default_factory=Backoff)
    tolerance: Tolerance = field(default_factory=Tolerance)
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to a server; `what` is asked for, in words for the model."""

    method: str
    params: JsonObject
    what: str
    meta: JsonObject | None = None
    progress: Progress | None = None
    errand: Errand | None = None
    definition: JsonObject | None = None
    """Of the tool, as the call was judged by it."""


class _Life:
    """One connection, from the start of its transport. `end` is final once `ended` is set."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.end = "closed its output"


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
        self.state = State.DISABLED if config.disabled else State.CONNECTING
        self.problem: str | None = None
        self._last_problem = ""
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
        self._life: _Life | None = None
        self._ready_at: float | None = None
        self._circuit = Circuit(timing.tolerance, timing.clock)
        self._attempts = 0
        self._settled = 0
        self._news = anyio.Event()
        self._wake = anyio.Event()
        self._relist = anyio.Event()
        self._hold = hold if self.dossier.seen and not config.disabled else None
        if self._hold is not None:
            self.state = State.IDLE
        self._announced = False

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def log(self) -> Path:
        return self._log.path

    @property
    def alive(self) -> bool:
        return self._life is not None

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
        life = await self._alive()
        self._check(request)
        try:
            return await self._send(life, request)
        except NotTaken as error:
            if not await self._has_ended(life):
                raise self._not_taken(error) from error
        life = await self._alive()
        self._check(request)
        try:
            return await self._send(life, request)
        except NotTaken as error:
            raise self._not_taken(error) from error

    def _check(self, request: Asked) -> None:
        """A call was judged by what was known of its tool; the server may tell otherwise since."""
        judged = request.definition
        if judged is None or any(each is judged for each in self.tools):
            return
        named = [each for each in self.tools if each.get("name") == judged.get("name")]
        if named and all(repr(each) != repr(judged) for each in named):
            raise CallFailed(
                f"The server {self.name!r} has changed what {request.what!r} is since this call "
                "was judged. Nothing was sent. Look at the tool's definition again before you "
                "call it."
            )

    async def fresh(self) -> None:
        """A server whose tools are only known from before is started, and asked for them."""
        if self.state is State.IDLE:
            self._wake.set()
        if self.dossier.seen and self.state is not State.DISABLED:
            with anyio.move_on_after(self._timing.patience):
                await self.tried.wait()

    async def _send(self, life: _Life, request: Asked) -> JsonObject | ProtocolError:
        """Raises `CallFailed`, and `NotTaken` where the request may be sent once more."""
        what = request.what
        try:
            return await life.connection.request(
                *(request.method, request.params),
                meta=request.meta,
                progress=request.progress,
                errand=request.errand,
                timeout=self.config.timeout,
                idle=self.config.idle_timeout,
            )
        except Silence as error:
            raise CallFailed(
                f"The server {self.name!r} reported no progress of {what!r} for "
                f"{self.config.idle_timeout:g} s and was told to stop; the call may have taken "
                'effect. A longer "idleTimeout" (in milliseconds) can be set in its entry under '
                '"mcpServers".'
            ) from error
        except TimeoutError as error:
            raise CallFailed(
                f"The server {self.name!r} did not answer {what!r} within "
                f"{self.config.timeout:g} s and was told to stop; the call may have taken effect. "
                'A longer "timeout" (in milliseconds) can be set in its entry under "mcpServers".'
            ) from error
        except ConnectionLost as error:
            await self._has_ended(life)
            raise CallFailed(
                f"The server {self.name!r} {life.end} while it ran {what!r}. {self._prospect()} "
                f"{_NOT_REPEATED}"
            ) from error
        except RequestLost as error:
            raise CallFailed(
                f"The server {self.name!r} {error} while it ran {what!r}. {_NOT_REPEATED}"
            ) from error

    async def _has_ended(self, life: _Life) -> bool:
        """Whether this connection is over; how it ended is known then."""
        if life.connection.over.is_set():
            with anyio.move_on_after(self._timing.patience):
                await life.ended.wait()
        return life.ended.is_set()

    def _prospect(self) -> str:
        return "It is being restarted." if self.config.restart else "The next call restarts it."

    def _not_taken(self, error: NotTaken) -> CallFailed:
        return CallFailed(f"The server {self.name!r} {error}. Nothing was run.")

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

        async def send(params: JsonObject) -> JsonObject | ProtocolError:
            return await self.request(replace(asked, params=params))

        async def work(errand: Errand) -> JsonObject | ProtocolError:
            async with self.calls.one(alone=alone):
                return await drive(send, request.params, errand, self.name, self.relay.roots)

        return await errand.carry(work, self._place.children.beside)

    def roots_changed(self) -> None:
        """The directories that the server may know of are others now."""
        self._place.children.beside(self._tell_of_roots)

    async def _tell_of_roots(self) -> None:
        life = self._life
        if life is not None and not life.connection.modern:
            await life.connection.notify("notifications/roots/list_changed")

    async def _alive(self) -> _Life:
        """Waits for this server only; a call to a server that is down has it tried at once, unless
        it keeps failing."""
        if self._life is None and not self._circuit.may_try:
            raise CallFailed(f"The server {self.name!r} is not available: {self._absence()}")
        with anyio.move_on_after(self._timing.patience):
            wanted = max(1, self._attempts)
            if self.state in (State.DOWN, State.IDLE):
                wanted = self._attempts + 1
                self._wake.set()
            while self.state is not State.DISABLED and self._settled < wanted:
                await self._news.wait()
        if self._life is None:
            raise CallFailed(f"The server {self.name!r} is not available: {self._absence()}")
        return self._life

    def look_again(self) -> None:
        """Its list may be out of date: it is asked for once more."""
        self._relist.set()

    def _absence(self) -> str:
        if self.state is State.DISABLED:
            return 'it is disabled; remove "disabled" from its entry under "mcpServers".'
        if self._circuit.open:
            return (
                f"it has been down {self._circuit.story()}; the last time it {self._last_problem}. "
                "Nothing was sent. It is tried again from time to time."
            )
        if self.state is State.CONNECTING:
            return f"it is still starting after {self._timing.patience:g} s. Try again later."
        return f"it {self.problem}. Nothing was sent. Its log is {self._log.path}."

    # -- the one task

    async def run(self) -> None:
        """Keeps the server going until cancelled."""
        if self.state is State.DISABLED:
            self.tried.set()
            return
        await self._wanted()
        while True:
            self._attempts += 1
            self._circuit.trying()
            self._ready_at = None
            self._relist = anyio.Event()
            self._become(State.CONNECTING, None)
            problem = await self._attempt()
            self._fall(problem)
            backoff, circuit = self._timing.backoff, self._circuit
            circuit.failures = backoff.failures(circuit.failures, self._lived())
            await self._rest(backoff.delay(circuit.failures) if self.config.restart else None)

    def nudge(self) -> bool:
        """Has a server that waits to be started start, unless it is lazy; whether `tried` comes."""
        if self.state is State.IDLE:
            if self.config.lazy:
                return False
            self._wake.set()
        return True

    async def _wanted(self) -> None:
        """Until we are let go, or a call needs the server."""
        if self._hold is None:
            return
        hold = self._hold

        async def released() -> None:
            await hold.wait()
            self._wake.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(released)
            await self._wake.wait()
            tasks.cancel_scope.cancel()
        self._wake = anyio.Event()

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
        life = _Life(Connection(transport, self._list_changed, self.relay, self.greeting))
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

    async def _serve(self, life: _Life) -> str | None:
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

    async def _keep_listed(self, life: _Life) -> None:
        await life.ready.wait()
        while True:
            await self._relist.wait()
            self._relist = anyio.Event()
            await self._list_again(life.connection)
            # A server may announce a change whenever it is asked for its list.
            await self._timing.pause(self._timing.relist)

    async def _keep_offers(self, life: _Life) -> None:
        await life.ready.wait()
        await self.shelf.keep(life.connection)

    async def _list_again(self, connection: Connection) -> None:
        try:
            announced, self._announced = self._announced, False
            listing = await connection.list_tools(self._timing.listing)
            self._take(listing, announced=announced)
        except TimeoutError:
            self._become(State.DEGRADED, "did not answer 'tools/list'; its old list is kept")
        except ConnectionLost:
            return
        except UpstreamError as error:
            self._become(State.DEGRADED, f"{error}; its old list is kept")

    async def _rest(self, delay: float | None) -> None:
        """Until the delay, where there is one, is over or somebody needs the server."""

        async def wake() -> None:
            await self._wake.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake)
            if delay is not None:
                await self._timing.pause(delay)
                tasks.cancel_scope.cancel()
        self._wake = anyio.Event()

    # -- what others see

    def _rise(self, life: _Life, listing: Listing) -> None:
        self._life = life
        life.ready.set()
        self._ready_at = self._timing.clock()
        self._circuit.up()
        self._settled = self._attempts
        self._take(listing)
        self.tried.set()

    def _take(self, listing: Listing, *, announced: bool = False) -> None:
        # Compared as text: 1, 1.0 and true are equal in Python and not in a schema.
        changed = repr(listing.tools) != repr(self.tools)
        if changed:
            self.tools = listing.tools
        self.dossier.learn(listing)
        self._become(State.READY if listing.problem is None else State.DEGRADED, listing.problem)
        if changed:
            self._on_change()
        elif announced:
            # Where the server says so, it is so, though its list may look the same to us.
            self.on_offers_changed("tools")

    def _fall(self, problem: str) -> None:
        if self.state is not State.DOWN:
            self._life = None
            self._settled = self._attempts
            self._circuit.down()
            self._last_problem = problem
            self._become(State.DOWN, problem)
            self.dossier.failed(problem)
            self.tried.set()
            logger.warning("upstream %s %s", self.name, problem)

    def _become(self, state: State, problem: str | None) -> None:
        self.state, self.problem = state, problem
        news, self._news = self._news, anyio.Event()
        news.set()

    def _lived(self) -> float:
        return 0.0 if self._ready_at is None else self._timing.clock() - self._ready_at

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
