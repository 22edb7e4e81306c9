"""What every call of a process shares: the current snapshot, the approver, stores and journal."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mcp_dispatch.approval.approver import Approver
from mcp_dispatch.hooks.hooks import Hooks
from mcp_dispatch.journal.writer import Journal
from mcp_dispatch.model.tools import Tool
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.registry.registry import ToolRegistry
from mcp_dispatch.results.limits import ResultLimits
from mcp_dispatch.results.store import ResultStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What follows from the settings and the connected servers; replaced whole when they change."""

    registry: ToolRegistry
    hooks: Hooks
    policy: Policy
    limits: ResultLimits = field(default_factory=ResultLimits)
    is_deferred: Callable[[Tool], bool] = lambda _: False
    """Whether a tool is listed only for clients that have found it with `tool_search`."""


@dataclass(frozen=True, slots=True)
class Services:
    """Passed to every stage that needs more than the call itself."""

    get_snapshot: Callable[[], Snapshot]
    """Returns the current snapshot. It can change while a call waits for an answer."""

    approver: Approver
    results: ResultStore
    journal: Journal
