"""Access control: health checks are open, other requests need an allowed host, origin and token."""

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from mcp_dispatch.server.http.host_policy import HostPolicy
from mcp_dispatch.server.http.token import BearerToken

MCP_PATHS: Final = frozenset({"/mcp", "/mcp/"})
HEALTH_PATH: Final = "/healthz"
_REALM: Final = 'Bearer realm="mcp-dispatch"'


class Authenticator:
    """Without a `token` every request is accepted, as one anonymous principal."""

    def __init__(self, host_policy: HostPolicy, token: BearerToken | None) -> None:
        self._host_policy = host_policy
        self._token = token

    @property
    def principal(self) -> str:
        """The principal of accepted requests: there is one token, so there is one holder of it."""
        return "anonymous" if self._token is None else "token"

    def check_request(self, scope: Scope) -> Response | None:
        """Return the response to a health check or a rejected request, or None to accept it."""
        if scope["path"] == HEALTH_PATH:
            return _build_health_response(scope["method"])
        headers, local_address = Headers(scope=scope), _find_local_address(scope)
        if not self._host_policy.allows_host(headers.get("host"), local_address):
            text = "this Host is not served; see dispatch.http.allowedHosts"
            return build_error_response(421, text)
        for origin in headers.getlist("origin"):
            if not self._host_policy.allows_origin(origin, local_address):
                text = "this Origin is not allowed; see dispatch.http.allowedOrigins"
                return build_error_response(403, text)
        if scope["path"] not in MCP_PATHS:
            return build_error_response(404, "there is nothing here; MCP is at /mcp")
        return self._check_token(headers.getlist("authorization"))

    def _check_token(self, authorization: list[str]) -> Response | None:
        if self._token is None:
            return None
        if not authorization:
            challenge = {"WWW-Authenticate": _REALM}
            return build_error_response(401, "a bearer token is needed", challenge)
        scheme, _, secret = authorization[0].partition(" ")
        if len(authorization) == 1 and scheme.lower() == "bearer" and self._token.matches(secret):
            return None
        challenge = {"WWW-Authenticate": f'{_REALM}, error="invalid_token"'}
        return build_error_response(401, "this is not the token of this server", challenge)


def build_error_response(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": text}, status, headers)


def _build_health_response(method: str) -> Response:
    if method in {"GET", "HEAD"}:
        return JSONResponse({"status": "ok"})
    return Response(status_code=405, headers={"Allow": "GET, HEAD"})


def _find_local_address(scope: Scope) -> str | None:
    """Return our address of the connection: bound to `0.0.0.0`, the one that the client uses."""
    server: tuple[str, int | None] | None = scope.get("server")
    return server[0] if server else None
