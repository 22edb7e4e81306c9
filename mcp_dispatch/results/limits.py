"""How large a result may be before it is kept on disk: what settings say, then the tool itself."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mcp_dispatch.model.tools import Tool
from mcp_dispatch.results.fit import IMAGE_BYTES

RESULT_CHARS = 50_000
BASH_CHARS = 30_000

_BASH = "Bash"


@dataclass(frozen=True, slots=True)
class Limit:
    """`chars` is None for a tool that bounds itself. Only what is `counted` uses up the budget of
    its batch: who was given a larger or no limit was given it knowingly."""

    chars: int | None
    counted: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """What the settings say; None in `tools` and `servers` means without a limit."""

    every: int | None = None
    servers: Mapping[str, int | None] = field(default_factory=lambda: {})
    tools: Mapping[str, int | None] = field(default_factory=lambda: {})
    """By the name that rules know."""

    bash: int = BASH_CHARS
    image_bytes: int = IMAGE_BYTES

    def of(self, tool: Tool, *, failed: bool = False) -> Limit:
        if failed and tool.server is None and tool.rule_name == _BASH:
            # The beginning and the end of what it printed: that is all there is of a failure.
            return Limit(None, counted=True)
        if tool.rule_name in self.tools:
            return _chosen(self.tools[tool.rule_name])
        if tool.server is not None:
            return self._of_server(tool.server, tool.result_limit)
        if tool.result_limit is None:
            return Limit(None, counted=False)
        own = self.bash if tool.rule_name == _BASH else tool.result_limit
        return Limit(min(own, self.every or RESULT_CHARS), counted=True)

    def _of_server(self, server: str, own: int | None) -> Limit:
        if server in self.servers:
            return _chosen(self.servers[server])
        if self.every is not None:
            return _chosen(self.every)
        return _chosen(own)


def _chosen(chars: int | None) -> Limit:
    return Limit(chars, counted=chars is not None and chars <= RESULT_CHARS)


BATCH_CHARS = 200_000


class Budget:
    """Of one batch. What was decided for a call stays decided, whoever asks again."""

    def __init__(self, chars: int = BATCH_CHARS) -> None:
        self._left = chars
        self._decided: dict[str, bool] = {}

    @property
    def left(self) -> int:
        return self._left

    def admits(self, call_id: str, chars: int) -> bool:
        """Whether the call's result may be delivered as it is; its size is taken off then."""
        if call_id not in self._decided:
            self._decided[call_id] = chars <= self._left
            if chars <= self._left:
                self._left -= chars
        return self._decided[call_id]

    def spend(self, chars: int) -> None:
        """What is delivered in the place of a result that was not admitted."""
        self._left = max(0, self._left - chars)


def to_replace(sizes: Mapping[str, int], chars: int = BATCH_CHARS) -> frozenset[str]:
    """Of a whole batch, by call: the largest results, until the others are within the budget."""
    left = sum(sizes.values())
    chosen: list[str] = []
    for call, size in _largest_first(sizes.items()):
        if left <= chars:
            break
        left -= size
        chosen.append(call)
    return frozenset(chosen)


def _largest_first(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(sizes, key=lambda each: each[1], reverse=True)
