"""Who may come in: health for anybody, the rest by name and by token, in this order."""

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from mcp_dispatch.server.http.host_policy import Names
from mcp_dispatch.server.http.token import Token

PATHS = frozenset({"/mcp", "/mcp/"})
HEALTH_PATH = "/healthz"
_REALM = 'Bearer realm="mcp-dispatch"'


class Door:
    """Without a `token` everybody is let in, as one and the same anonymous principal."""

    def __init__(self, names: Names, token: Token | None) -> None:
        self._names = names
        self._token = token

    @property
    def principal(self) -> str:
        """Who it is that was let in: there is one token, so there is one holder of it."""
        return "anonymous" if self._token is None else "token"

    def answer(self, scope: Scope) -> Response | None:
        """The whole answer for whoever does not get in; None for who does."""
        if scope["path"] == HEALTH_PATH:
            return _health(scope["method"])
        headers, arrived_at = Headers(scope=scope), _arrived_at(scope)
        if not self._names.host_allowed(headers.get("host"), arrived_at):
            return told(421, "this Host is not served; see dispatch.http.allowedHosts")
        for origin in headers.getlist("origin"):
            if not self._names.origin_allowed(origin, arrived_at):
                return told(403, "this Origin is not allowed; see dispatch.http.allowedOrigins")
        if scope["path"] not in PATHS:
            return told(404, "there is nothing here; MCP is at /mcp")
        return self._unauthorized(headers.getlist("authorization"))

    def _unauthorized(self, presented: list[str]) -> Response | None:
        if self._token is None:
            return None
        if not presented:
            return told(401, "a bearer token is needed", {"WWW-Authenticate": _REALM})
        scheme, _, secret = presented[0].partition(" ")
        if len(presented) == 1 and scheme.lower() == "bearer" and self._token.matches(secret):
            return None
        challenge = f'{_REALM}, error="invalid_token"'
        return told(401, "this is not the token of this server", {"WWW-Authenticate": challenge})


def told(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": text}, status, headers)


def _health(method: str) -> Response:
    if method in {"GET", "HEAD"}:
        return JSONResponse({"status": "ok"})
    return Response(status_code=405, headers={"Allow": "GET, HEAD"})


def _arrived_at(scope: Scope) -> str | None:
    """Our own end of the connection: behind `0.0.0.0`, the address that the client named."""
    server: tuple[str, int | None] | None = scope.get("server")
    return server[0] if server else None
