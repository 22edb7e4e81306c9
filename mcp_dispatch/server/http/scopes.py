"""Which scope a request over HTTP belongs to: its session's, or since 2026-07-28 its principal's."""

from collections.abc import Awaitable, Callable
from functools import partial

from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.wire import sdk

_SCOPE_KEY = "mcp_dispatch/scope"


class HttpScopes:
    """A session's scope ends with it; a principal's lasts as long as the server."""

    def __init__(
        self, open_scope: Callable[[], Scope], end_scope: Callable[[Scope], Awaitable[None]]
    ) -> None:
        self._open_scope = open_scope
        self._end_scope = end_scope
        self._principal_scopes: dict[str, Scope] = {}

    def find_scope(self, ctx: sdk.Context) -> Scope:
        if sdk.is_modern(ctx):
            return self._find_principal_scope(sdk.get_principal(ctx))
        kept = sdk.get_connection_state(ctx)
        if _SCOPE_KEY not in kept:
            kept[_SCOPE_KEY] = scope = self._open_scope()
            sdk.on_connection_end(ctx, partial(self._end_scope, scope))
        return kept[_SCOPE_KEY]

    def _find_principal_scope(self, principal: str) -> Scope:
        if principal not in self._principal_scopes:
            self._principal_scopes[principal] = self._open_scope()
        return self._principal_scopes[principal]
