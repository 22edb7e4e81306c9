"""How it stands with a server: its state, the waits for another one, and why it cannot be called."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import anyio

from mcp_dispatch.upstream.backoff import Backoff, CircuitBreaker, CircuitLimits
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.errors import CallFailed
from mcp_dispatch.upstream.requests.send import ConnectionLease


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, and the clock that counts them. `patience` is how long a call waits to be sent."""

    patience: float = 30.0
    listing: float = 30.0
    exit: float = 0.5
    relist: float = 1.0
    backoff: Backoff = field(default_factory=Backoff)
    tolerance: CircuitLimits = field(default_factory=CircuitLimits)
    pause: Callable[[float], Awaitable[None]] = anyio.sleep
    clock: Callable[[], float] = anyio.current_time


class ServerState(Enum):
    IDLE = "idle"
    """Its tools are known from before; it has not been started yet."""
    CONNECTING = "connecting"
    READY = "ready"
    DEGRADED = "degraded"
    """Takes calls, but its list of tools is incomplete or could not be refreshed."""
    DOWN = "down"
    DISABLED = "disabled"


class Lifecycle:
    """Changed by the server's one task alone; whoever calls waits here, and may `wake` it."""

    def __init__(self, config: ServerConfig, timing: Timing, log: Path, *, idle: bool) -> None:
        self.state = ServerState.DISABLED if config.disabled else ServerState.CONNECTING
        if idle:
            self.state = ServerState.IDLE
        self.problem: str | None = None
        self.lease: ConnectionLease | None = None
        self._name = config.name
        self._log = log
        self._timing = timing
        self._last_problem = ""
        self._ready_at: float | None = None
        self._breaker = CircuitBreaker(timing.tolerance, timing.clock)
        self._attempts = 0
        self._settled_attempts = 0
        self._state_changed = anyio.Event()
        self._wakeup = anyio.Event()

    # -- for the one task

    def begin_attempt(self) -> None:
        self._attempts += 1
        self._breaker.record_attempt()
        self._ready_at = None
        self.set_state(ServerState.CONNECTING, None)

    def mark_connected(self, lease: ConnectionLease) -> None:
        """It has answered; `become` says how well."""
        self.lease = lease
        lease.ready.set()
        self._ready_at = self._timing.clock()
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
        news, self._state_changed = self._state_changed, anyio.Event()
        news.set()

    def compute_restart_delay(self) -> float:
        """Seconds until it is tried again, after it has fallen once more."""
        backoff, circuit = self._timing.backoff, self._breaker
        circuit.failures = backoff.count_failures(circuit.failures, self._measure_uptime())
        return backoff.compute_delay(circuit.failures)

    def _measure_uptime(self) -> float:
        return 0.0 if self._ready_at is None else self._timing.clock() - self._ready_at

    async def wait_until_needed(self, start_signal: anyio.Event) -> None:
        """Until we are let go, or a call needs the server."""

        async def wake_on_signal() -> None:
            await start_signal.wait()
            self._wakeup.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wake_on_signal)
            await self._wakeup.wait()
            tasks.cancel_scope.cancel()
        self._wakeup = anyio.Event()

    async def wait_for_restart(self, delay: float | None) -> None:
        """Until the delay, where there is one, is over or somebody needs the server."""

        async def cancel_on_wakeup() -> None:
            await self._wakeup.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_wakeup)
            if delay is not None:
                await self._timing.pause(delay)
                tasks.cancel_scope.cancel()
        self._wakeup = anyio.Event()

    # -- for whoever calls

    def wake(self) -> None:
        """Somebody needs the server."""
        self._wakeup.set()

    async def acquire_lease(self) -> ConnectionLease:
        """Waits for this server only; a call to a server that is down has it tried at once, unless
        it keeps failing. Raises `CallFailed`."""
        if self.lease is None and not self._breaker.may_try:
            raise self._build_unavailable_error()
        with anyio.move_on_after(self._timing.patience):
            wanted = max(1, self._attempts)
            if self.state in (ServerState.DOWN, ServerState.IDLE):
                wanted = self._attempts + 1
                self._wakeup.set()
            while self.state is not ServerState.DISABLED and self._settled_attempts < wanted:
                await self._state_changed.wait()
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
                f"it has been down {self._breaker.describe_outage()}; the last time it {self._last_problem}. "
                "Nothing was sent. It is tried again from time to time."
            )
        if self.state is ServerState.CONNECTING:
            return f"it is still starting after {self._timing.patience:g} s. Try again later."
        return f"it {self.problem}. Nothing was sent. Its log is {self._log}."
