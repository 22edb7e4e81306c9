"""Decides which upstream tools are listed and which are deferred until `tool_search` finds them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Tool

_BYTES_PER_TOKEN = 4


def estimate_tokens(definition: JsonObject) -> int:
    """Estimate the tokens of a definition by its length as compact JSON, without a tokenizer."""
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


_ALWAYS_LOAD = "anthropic/alwaysLoad"


class DeferralMode(Enum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class DeferralSettings:
    """`auto` defers if there are more tools, or more tokens of definitions, than these limits."""

    mode: DeferralMode = DeferralMode.AUTO
    max_tools: int = 40
    max_tokens: int = 10_000


class Deferral:
    """Decides once, by the tools known then: clients and models cache the tool list, so it must not
    change because another server connects.

    `find_always_load` returns the `alwaysLoad` setting of a server, or None.
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
        """Whether tools can be deferred at all."""
        return self._settings.mode is not DeferralMode.NEVER

    @property
    def decided(self) -> bool:
        return self._is_active is not None

    def decide(self, tools: Iterable[Tool]) -> None:
        """Decide by the tools that would be listed. Later calls change nothing."""
        if self._is_active is None:
            self._is_active = self._is_over_limit([tool for tool in tools if self._can_defer(tool)])

    def is_deferred(self, tool: Tool) -> bool:
        """Before the decision, only tools of servers with `alwaysLoad: false` are deferred."""
        if not self.enabled or not self._can_defer(tool):
            return False
        return self._is_active is True or self._find_entry_setting(tool) is False

    def _is_over_limit(self, tools: Sequence[Tool]) -> bool:
        tokens = sum(estimate_tokens(tool.definition) for tool in tools)
        return len(tools) > self._settings.max_tools or tokens > self._settings.max_tokens

    def _can_defer(self, tool: Tool) -> bool:
        """Whether the tool may be deferred. Built-in tools are not. The setting of the server
        counts for all its tools; a tool can override it with its own metadata, but not if the
        setting is false."""
        if tool.server is None:
            return False
        entry, own = self._find_entry_setting(tool), _read_always_load(tool.definition.get("_meta"))
        if entry is False:
            return True
        return not (entry if own is None else own)

    def _find_entry_setting(self, tool: Tool) -> bool | None:
        return None if tool.server is None else self._find_always_load(tool.server)


def _read_always_load(meta: Json) -> bool | None:
    always_load = meta.get(_ALWAYS_LOAD) if isinstance(meta, dict) else None
    return always_load if isinstance(always_load, bool) else None
