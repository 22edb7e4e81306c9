"""What is known of one server: read before it is started, learnt anew whenever it lists its tools."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.upstream.cache import Known, Memory
from mcp_dispatch.upstream.config.model import ServerConfig
from mcp_dispatch.upstream.definition_diff import Change
from mcp_dispatch.upstream.pagination import Listing

Changed = Callable[[str, tuple[Change, ...]], None]
"""Told of a server and of its tools that are no longer what they were."""


class Dossier:
    """Without a `memory`, what is learnt lasts as long as the process."""

    def __init__(
        self, config: ServerConfig, memory: Memory | None, on_changed: Changed | None = None
    ) -> None:
        self._config = config
        self._memory = memory if config.key else None
        self._on_changed = on_changed
        self.known = (self._memory and self._memory.recall(config.key)) or Known()

    @property
    def seen(self) -> bool:
        """Whether the server has ever told its tools."""
        return self.known.listed

    def learn(self, listing: Listing) -> None:
        """A list that may be incomplete replaces no complete one on disk."""
        before = self.known
        at = self._memory.clock() if self._memory else 0.0
        known, changed = before.learn(listing.tools, at)
        complete = listing.problem is None
        if complete or not before.complete:
            self.known = replace(known, complete=complete)
        elif changed:
            self.known = replace(before, changes=known.changes)
        if self.known != before:
            self._keep()
        if changed and self._on_changed is not None:
            self._on_changed(self._config.name, changed)

    def judged(
        self,
        tools: tuple[JsonObject, ...],
        refused: Mapping[str, str],
        outputs: Mapping[str, str],
    ) -> None:
        """The schemas of `tools` have been looked at; some of them cannot be used, and why."""
        if tools is not self.known.tools:
            return
        known = replace(
            self.known,
            usable=True,
            refused=tuple(sorted(refused.items())),
            refused_outputs=tuple(sorted(outputs.items())),
        )
        if known != self.known:
            self.known = known
            if known.listed:
                self._keep()

    def failed(self, problem: str) -> None:
        if self.known.problem != problem:
            self.known = replace(self.known, problem=problem)
            self._keep()

    def _keep(self) -> None:
        if self._memory is not None:
            self._memory.keep(self._config.key, self._config.name, self.known)
