"""Size limits of single results and of a batch, from the settings and from the tools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp_dispatch.model.tools import Tool
from mcp_dispatch.results.size import MAX_IMAGE_BYTES

MAX_RESULT_CHARS = 50_000
MAX_BASH_CHARS = 30_000

_BASH = "Bash"


@dataclass(frozen=True, slots=True)
class ResultLimit:
    """The limit of one result. `chars` is None for a tool that limits its own output.

    A result with a limit above the default, or without one, does not use the budget of its batch:
    such a limit was set on purpose.
    """

    chars: int | None
    uses_batch_budget: bool


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """The limits in the settings, in characters; None in `tools` and `servers` means no limit."""

    default: int | None = None
    servers: Mapping[str, int | None] = field(default_factory=lambda: {})
    tools: Mapping[str, int | None] = field(default_factory=lambda: {})
    """Keyed by the tool name that rules use."""

    bash: int = MAX_BASH_CHARS
    max_image_bytes: int = MAX_IMAGE_BYTES

    def find_limit(self, tool: Tool, *, failed: bool = False) -> ResultLimit:
        if failed and tool.server is None and tool.rule_name == _BASH:
            # Bash has already cut the output of a failed command to its beginning and end.
            return ResultLimit(None, uses_batch_budget=True)
        if tool.rule_name in self.tools:
            return _build_limit(self.tools[tool.rule_name])
        if tool.server is not None:
            return self._find_server_limit(tool.server, tool.result_limit)
        if tool.result_limit is None:
            return ResultLimit(None, uses_batch_budget=False)
        own = self.bash if tool.rule_name == _BASH else tool.result_limit
        return ResultLimit(min(own, self.default or MAX_RESULT_CHARS), uses_batch_budget=True)

    def _find_server_limit(self, server: str, declared: int | None) -> ResultLimit:
        if server in self.servers:
            return _build_limit(self.servers[server])
        if self.default is not None:
            return _build_limit(self.default)
        return _build_limit(declared)


def _build_limit(chars: int | None) -> ResultLimit:
    return ResultLimit(chars, uses_batch_budget=chars is not None and chars <= MAX_RESULT_CHARS)


MAX_BATCH_CHARS = 200_000


class BatchBudget:
    """The characters that the results of one batch may use together.

    The decision for a call is made once; a second reservation returns the same answer.
    """

    def __init__(self, chars: int = MAX_BATCH_CHARS) -> None:
        self._remaining = chars
        self._decisions: dict[str, bool] = {}

    @property
    def remaining(self) -> int:
        return self._remaining

    def reserve(self, call_id: str, chars: int) -> bool:
        """Return whether the result of the call may be delivered whole, and deduct its size if so."""
        if call_id not in self._decisions:
            self._decisions[call_id] = chars <= self._remaining
            if chars <= self._remaining:
                self._remaining -= chars
        return self._decisions[call_id]

    def consume(self, chars: int) -> None:
        """Deduct the size of what replaces a result that did not fit."""
        self._remaining = max(0, self._remaining - chars)


def select_results_to_replace(
    sizes: Mapping[str, int], chars: int = MAX_BATCH_CHARS
) -> frozenset[str]:
    """Return the calls with the largest results, until the others are within the budget."""
    left = sum(sizes.values())
    chosen: list[str] = []
    for call, size in _sort_by_size(sizes.items()):
        if left <= chars:
            break
        left -= size
        chosen.append(call)
    return frozenset(chosen)


def _sort_by_size(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(sizes, key=lambda each: each[1], reverse=True)
