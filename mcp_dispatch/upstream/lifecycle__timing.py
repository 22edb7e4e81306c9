"""How long things may take with one server, and the clock that counts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from mcp_dispatch.upstream.backoff import Backoff
from mcp_dispatch.upstream.backoff__circuit import Tolerance


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
