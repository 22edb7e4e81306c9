"""The state of one server: transitions, waits for a connection, and why it is not available."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import anyio

from mcp_dispatch.concurrency.change_signal import ChangeSignal
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.backoff import Backoff, CircuitBreaker, CircuitLimits
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.connection import Connection
from mcp_dispatch.upstream.errors import CallFailed


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in seconds, and the clock that measures them.

    `connect_wait` is how long a call waits for a connection before it fails.
    """

    connect_wait: float = 30.0
    list_timeout: float = 30.0
    exit_timeout: float = 0.5
    relist_interval: float = 1.0
    backoff: Backoff = field(default_factory=Backoff)
    circuit_limits: CircuitLimits = field(default_factory=CircuitLimits)
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time


class ServerState(Enum):
    IDLE = "idle"
    """Its tools are cached; the server has not been started yet."""
    CONNECTING = "connecting"
    READY = "ready"
    DEGRADED = "degraded"
    """Accepts calls, but its tool list is incomplete or could not be refreshed."""
    DOWN = "down"
    DISABLED = "disabled"


class ConnectionLease:
    """One connection from the start of its transport to its end.

    `end_reason` is final once `ended` is set.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.end_reason = "closed its output"

    async def has_ended(self, timeout: float) -> bool:
        """Return whether the connection is over; `end_reason` is final then."""
        if self.connection.closed.is_set():
            with anyio.move_on_after(timeout):
                await self.ended.wait()
        return self.ended.is_set()


class Lifecycle:
    """Changed only by the task of the server's supervisor. Calls wait here and may `wake` it."""

    def __init__(self, config: ServerConfig, timing: Timing, log: Path, *, idle: bool) -> None:
        self.tools: tuple[JsonObject, ...] = ()
        """The last known tool list, from the server or from the cache."""

        self.state = ServerState.DISABLED if config.disabled else ServerState.CONNECTING
        if idle:
            self.state = ServerState.IDLE
        self.problem: str | None = None
        self.lease: ConnectionLease | None = None
        self.timing = timing
        self._name = config.name
        self._log = log
        self._last_problem = ""
        self._ready_at: float | None = None
        self._breaker = CircuitBreaker(timing.circuit_limits, timing.clock)
        self._attempts = 0
        self._settled_attempts = 0
        self._state_changed = ChangeSignal()
        self._wakeup = anyio.Event()

    # -- for the task of the supervisor

    def begin_attempt(self) -> None:
        self._attempts += 1
        self._breaker.record_attempt()
        self._ready_at = None
        self.set_state(ServerState.CONNECTING, None)

    def mark_connected(self, lease: ConnectionLease) -> None:
        """Make `lease` available; the caller sets the state right afterwards."""
        self.lease = lease
        lease.ready.set()
        self._ready_at = self.timing.clock()
        self._breaker.record_success()
        self._settled_attempts = self._attempts

    def mark_down(self, problem: str) -> None:
        self.lease = None
        self._settled_attempts = self._attempts
        self._breaker.record_failure()
        self._last_problem = problem
        self.set_state(ServerState.DOWN, problem)

    def set_state(self, state: ServerState, problem: str | None) -> None:
        self.state, self.problem = state, problem
        self._state_changed.notify()

    def compute_restart_delay(self) -> float:
        """Count one more failure and return the seconds until the next attempt."""
        backoff, breaker = self.timing.backoff, self._breaker
        uptime = 0.0 if self._ready_at is None else self.timing.clock() - self._ready_at
        breaker.failures = backoff.count_failures(breaker.failures, uptime)
        return backoff.compute_delay(breaker.failures)

    async def wait_until_needed(self, start_signal: anyio.Event) -> None:
        """Wait until `start_signal` is set or a call needs the server."""

        async def wake_on_signal() -> None:
            await start_signal.wait()
            self._wakeup.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake_on_signal)
            await self._wakeup.wait()
            tasks.cancel_scope.cancel()
        self._wakeup = anyio.Event()

    async def wait_for_restart(self, delay: float | None) -> None:
        """Wait for `delay` seconds, or for ever if it is None, unless a call needs the server."""

        async def cancel_on_wakeup() -> None:
            await self._wakeup.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_wakeup)
            if delay is not None:
                await self.timing.pause(delay)
                tasks.cancel_scope.cancel()
        self._wakeup = anyio.Event()

    # -- for calls

    def wake(self) -> None:
        """Start the server now if it waits to be started."""
        self._wakeup.set()

    async def acquire_lease(self) -> ConnectionLease:
        """Return the live connection, waiting for it if necessary. Raises `CallFailed`.

        A call to a server that is down triggers an attempt at once, unless the circuit is open.
        """
        if self.lease is None and not self._breaker.may_try:
            raise self._build_unavailable_error()
        with anyio.move_on_after(self.timing.connect_wait):
            needed = max(1, self._attempts)
            if self.state in (ServerState.DOWN, ServerState.IDLE):
                needed = self._attempts + 1
                self._wakeup.set()
            await self._state_changed.wait_until(
                lambda: self.state is ServerState.DISABLED or self._settled_attempts >= needed
            )
        if self.lease is None:
            raise self._build_unavailable_error()
        return self.lease

    def _build_unavailable_error(self) -> CallFailed:
        return CallFailed(f"The server {self._name!r} is not available: {self._explain_absence()}")

    def _explain_absence(self) -> str:
        if self.state is ServerState.DISABLED:
            return 'it is disabled; remove "disabled" from its entry under "mcpServers".'
        if self._breaker.is_open:
            return (
                f"it has been down {self._breaker.describe_outage()}; the last time it "
                f"{self._last_problem}. Nothing was sent. It is tried again from time to time."
            )
        if self.state is ServerState.CONNECTING:
            return f"it is still starting after {self.timing.connect_wait:g} s. Try again later."
        return f"it {self.problem}. Nothing was sent. Its log is {self._log}."
