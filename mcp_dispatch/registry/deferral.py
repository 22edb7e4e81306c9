"""Which tools of upstream servers are listed, and which wait until `tool_search` finds them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Tool

_BYTES_PER_TOKEN = 4


def estimate_tokens(definition: JsonObject) -> int:
    """By its length as compact JSON: about right for English and for code, without a tokenizer."""
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


_ALWAYS_LOAD = "anthropic/alwaysLoad"


class DeferralMode(Enum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class DeferralSettings:
    """`auto` defers when there are more tools, or tokens of definitions, than this."""

    mode: DeferralMode = DeferralMode.AUTO
    max_tools: int = 40
    max_tokens: int = 10_000


class Deferral:
    """Decided once, by the tools that are there then: a list that clients and models have cached
    must not turn over because one more server came up.

    `always_load` is what the person wrote in a server's entry, None where nothing.
    """

    def __init__(
        self, settings: DeferralSettings, find_always_load: Callable[[str], bool | None]
    ) -> None:
        self._settings = settings
        self._find_always_load = find_always_load
        self._is_active: bool | None = (
            None if settings.mode is DeferralMode.AUTO else settings.mode is DeferralMode.ALWAYS
        )

    @property
    def enabled(self) -> bool:
        """Whether tools may ever be deferred."""
        return self._settings.mode is not DeferralMode.NEVER

    @property
    def decided(self) -> bool:
        return self._is_active is not None

    def decide(self, tools: Iterable[Tool]) -> None:
        """`tools` are all that would be listed; nothing changes from the second time on."""
        if self._is_active is None:
            self._is_active = self._is_over_limit([tool for tool in tools if self._can_defer(tool)])

    def is_deferred(self, tool: Tool) -> bool:
        """Nothing is deferred until it is decided, but for servers whose entry asks for it."""
        if not self.enabled or not self._can_defer(tool):
            return False
        return self._is_active is True or self._find_entry_setting(tool) is False

    def _is_over_limit(self, tools: Sequence[Tool]) -> bool:
        tokens = sum(estimate_tokens(tool.definition) for tool in tools)
        return len(tools) > self._settings.max_tools or tokens > self._settings.max_tokens

    def _can_defer(self, tool: Tool) -> bool:
        """Built-ins never do. A server's entry says so for all its tools, a tool may say otherwise
        of itself; but what the entry keeps back no server can push into the list."""
        if tool.server is None:
            return False
        entry, own = self._find_entry_setting(tool), _read_always_load(tool.definition.get("_meta"))
        if entry is False:
            return True
        return not (entry if own is None else own)

    def _find_entry_setting(self, tool: Tool) -> bool | None:
        return None if tool.server is None else self._find_always_load(tool.server)


def _read_always_load(meta: Json) -> bool | None:
    said = meta.get(_ALWAYS_LOAD) if isinstance(meta, dict) else None
    return said if isinstance(said, bool) else None
