"""The clients of one transport: which scope a request belongs to, and how fast they read."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol

from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.wire import sdk

_SCOPE_KEY: Final = "mcp_dispatch/scope"


class BoundedOutput(Protocol):
    """Where responses are queued until clients have read them."""

    async def wait_for_capacity(self) -> None:
        """Wait while too many bytes of earlier responses are unread."""
        ...


class ClientSessions(Protocol):
    """What the MCP server needs from its transport."""

    @property
    def output(self) -> BoundedOutput: ...

    @property
    def uses_roots(self) -> bool:
        """Whether the roots of the client choose the workspace."""
        ...

    def find_scope(self, ctx: sdk.Context) -> Scope:
        """Return the scope whose state the request shares."""
        ...


class StdioSessions:
    """The one client of a stdio server: all its requests share the scope of the process."""

    def __init__(self, scope: Scope, output: BoundedOutput, *, uses_roots: bool) -> None:
        self._scope = scope
        self.output = output
        self.uses_roots = uses_roots

    def find_scope(self, ctx: sdk.Context) -> Scope:
        return self._scope


class HttpSessions:
    """The clients of an HTTP server: one scope per session, or since 2026-07-28 per principal.

    The scope of a session ends with it. The scope of a principal lasts as long as the server.
    """

    uses_roots = False
    """Several clients share the server, so the roots of one cannot choose the workspace."""

    def __init__(
        self,
        open_scope: Callable[[], Scope],
        end_scope: Callable[[Scope], Awaitable[None]],
        output: BoundedOutput,
    ) -> None:
        self._open_scope = open_scope
        self._end_scope = end_scope
        self.output = output
        self._principal_scopes: dict[str, Scope] = {}

    def find_scope(self, ctx: sdk.Context) -> Scope:
        if sdk.is_modern(ctx):
            return self._find_principal_scope(sdk.get_principal(ctx))
        state = sdk.get_connection_state(ctx)
        if _SCOPE_KEY not in state:
            state[_SCOPE_KEY] = scope = self._open_scope()
            sdk.on_connection_end(ctx, partial(self._end_scope, scope))
        return state[_SCOPE_KEY]

    def _find_principal_scope(self, principal: str) -> Scope:
        if principal not in self._principal_scopes:
            self._principal_scopes[principal] = self._open_scope()
        return self._principal_scopes[principal]
