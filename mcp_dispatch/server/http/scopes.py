"""Which scope a request over HTTP belongs to: its session's, or since 2026-07-28 its principal's."""

from collections.abc import Awaitable, Callable
from functools import partial

from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.wire import sdk

_KEY = "mcp_dispatch/scope"


class Scopes:
    """A session's scope ends with it; a principal's lasts as long as the server."""

    def __init__(
        self, open_scope: Callable[[], Scope], end_scope: Callable[[Scope], Awaitable[None]]
    ) -> None:
        self._open = open_scope
        self._end = end_scope
        self._principals: dict[str, Scope] = {}

    def of(self, ctx: sdk.Context) -> Scope:
        if sdk.is_modern(ctx):
            return self._of_principal(sdk.principal(ctx))
        kept = sdk.connection_state(ctx)
        if _KEY not in kept:
            kept[_KEY] = scope = self._open()
            sdk.at_connection_end(ctx, partial(self._end, scope))
        return kept[_KEY]

    def _of_principal(self, principal: str) -> Scope:
        if principal not in self._principals:
            self._principals[principal] = self._open()
        return self._principals[principal]
