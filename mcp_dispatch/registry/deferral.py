"""Which tools of upstream servers are listed, and which wait until `tool_search` finds them."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Tool

_BYTES_PER_TOKEN = 4


def estimated_tokens(definition: JsonObject) -> int:
    """By its length as compact JSON: about right for English and for code, without a tokenizer."""
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


_ALWAYS_LOAD = "anthropic/alwaysLoad"


class Mode(Enum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Terms:
    """`auto` defers when there are more tools, or tokens of definitions, than this."""

    mode: Mode = Mode.AUTO
    max_tools: int = 40
    max_tokens: int = 10_000


class Deferral:
    """Decided once, by the tools that are there then: a list that clients and models have cached
    must not turn over because one more server came up.

    `always_load` is what the person wrote in a server's entry, None where nothing.
    """

    def __init__(self, terms: Terms, always_load: Callable[[str], bool | None]) -> None:
        self._terms = terms
        self._always_load = always_load
        self._defers: bool | None = None if terms.mode is Mode.AUTO else terms.mode is Mode.ALWAYS

    @property
    def possible(self) -> bool:
        """Whether tools may ever be deferred."""
        return self._terms.mode is not Mode.NEVER

    @property
    def decided(self) -> bool:
        return self._defers is not None

    def decide(self, tools: Iterable[Tool]) -> None:
        """`tools` are all that would be listed; nothing changes from the second time on."""
        if self._defers is None:
            self._defers = self._too_many([tool for tool in tools if self._may_wait(tool)])

    def defers(self, tool: Tool) -> bool:
        """Nothing is deferred until it is decided, but for servers whose entry asks for it."""
        if not self.possible or not self._may_wait(tool):
            return False
        return self._defers is True or self._entry_of(tool) is False

    def _too_many(self, tools: Sequence[Tool]) -> bool:
        tokens = sum(estimated_tokens(tool.definition) for tool in tools)
        return len(tools) > self._terms.max_tools or tokens > self._terms.max_tokens

    def _may_wait(self, tool: Tool) -> bool:
        """Built-ins never do. A server's entry says so for all its tools, a tool may say otherwise
        of itself; but what the entry keeps back no server can push into the list."""
        if tool.server is None:
            return False
        entry, own = self._entry_of(tool), _says(tool.definition.get("_meta"))
        if entry is False:
            return True
        return not (entry if own is None else own)

    def _entry_of(self, tool: Tool) -> bool | None:
        return None if tool.server is None else self._always_load(tool.server)


def _says(meta: Json) -> bool | None:
    said = meta.get(_ALWAYS_LOAD) if isinstance(meta, dict) else None
    return said if isinstance(said, bool) else None
