"""HTTP requests to one server: headers, redirects, and errors worded for the model."""

import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import anyio
import httpx2

from mcp_dispatch import __version__
from mcp_dispatch.upstream.errors import RequestLost, RequestNotExecuted, ServerUnreachable
from mcp_dispatch.upstream.transports.body import unpack_body
from mcp_dispatch.upstream.transports.headers import HeaderSource
from mcp_dispatch.wire.gunzip import ACCEPT_ENCODING

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Redirects that keep the method: a POST that becomes a GET is another request.
_METHOD_PRESERVING: Final = frozenset({307, 308})
_MAX_REDIRECTS: Final = 3
_UNAUTHORIZED: Final = frozenset({401, 403})
_CONNECT_ERRORS: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
# Seconds. Shorter than the common servers keep an idle connection open: a request must not be
# written to one that is being closed. And how long a server may refuse to read what we write.
_KEEPALIVE_SECONDS: Final = 3.0
_WRITE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The head of a response; iterating over `chunks` reads the body and raises `RequestLost`."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpClient:
    """A pool of connections to one origin; `aclose` closes all of them."""

    def __init__(self, url: str, headers: HeaderSource, connect_timeout: float) -> None:
        """Raises `RequestNotExecuted` if the URL is invalid."""
        # They would log whole URLs, which may hold secrets.
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        try:
            self.url = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise RequestNotExecuted('has a "url" that is none') from error
        self._headers = headers
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=connect_timeout, write=_WRITE_SECONDS),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=20,
                keepalive_expiry=_KEEPALIVE_SECONDS,
            ),
            headers={"User-Agent": f"mcp-dispatch/{__version__}"},
            verify=_create_tls_context(self.url),
            trust_env=self.url.host not in _LOOPBACK,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    def resolve_url(self, location: str) -> httpx2.URL:
        """Resolve a URL that the server sent. Raises `RequestNotExecuted` for another origin."""
        try:
            target = self.url.join(location)
        except (httpx2.InvalidURL, ValueError) as error:
            raise RequestNotExecuted("named an address that is none") from error
        if _parse_origin(target) != _parse_origin(self.url):
            raise RequestNotExecuted(
                f"points to another origin, {format_origin(target)}, which is not followed; "
                'correct its "url" if that is where it is now'
            )
        return target

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        url: httpx2.URL | None = None,
    ) -> AsyncGenerator[HttpResponse, None]:
        """Send a request and yield its response. Raises `RequestNotExecuted`, `RequestLost`.

        A request that is refused for its credentials is sent once more if the helper returns others.
        """
        target = url or self.url
        own = await self._headers.load()
        response = await self._follow_redirects(method, target, {**own, **headers}, body)
        if response.status_code in _UNAUTHORIZED:
            try:
                changed = await self._headers.refresh(own)
            except RequestNotExecuted:
                await response.aclose()
                raise
            if changed:
                await response.aclose()
                own = await self._headers.load()
                response = await self._follow_redirects(method, target, {**own, **headers}, body)
        try:
            yield HttpResponse(
                response.status_code, _collect_headers(response), _stream_body(response)
            )
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _follow_redirects(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        for _ in range(_MAX_REDIRECTS):
            response = await self._send(method, url, headers, body)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return response
            await response.aclose()
            if method != "GET" and response.status_code not in _METHOD_PRESERVING:
                raise RequestNotExecuted(
                    f"answers with a redirect ({response.status_code}) that would "
                    'turn the request into another; correct its "url"'
                )
            url = self.resolve_url(location)
        raise RequestNotExecuted(f"redirects more than {_MAX_REDIRECTS} times")

    async def _send(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        sent = {**headers, "Accept-Encoding": ACCEPT_ENCODING}
        request = self._http.build_request(method, url, headers=sent, content=body)
        try:
            return await self._http.send(request, stream=True)
        except _CONNECT_ERRORS as error:
            problem = _format_error(error) or "no connection"
            raise ServerUnreachable(
                f"cannot be reached at {format_origin(url)}: {problem}"
            ) from error
        except httpx2.HTTPError as error:
            raise _to_request_lost(error) from error


def _create_tls_context(url: httpx2.URL) -> ssl.SSLContext | bool:
    """Load the certificates, which takes a while, only for a URL that needs them."""
    return True if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def format_origin(url: httpx2.URL) -> str:
    """Return the origin, the only part of a URL that is ever shown: the path may be a secret."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def to_status_error(status: int) -> RequestNotExecuted | RequestLost:
    """Return the error for a response that contains no JSON-RPC message."""
    try:
        words = f"answered HTTP {status} ({HTTPStatus(status).phrase})"
    except ValueError:
        words = f"answered HTTP {status}"
    if status in _UNAUTHORIZED:
        return RequestNotExecuted(
            f'{words}: it wants other credentials; give them in "headers" or "headersHelper"'
        )
    # A 4xx response means that the request was refused; a 5xx of a gateway leaves that open.
    return (
        RequestNotExecuted(words) if 400 <= status < 500 and status != 408 else RequestLost(words)
    )


async def _stream_body(response: httpx2.Response) -> AsyncIterator[bytes]:
    encoding = response.headers.get("content-encoding", "")
    try:
        async for piece in unpack_body(response.aiter_raw(), encoding):
            yield piece
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise _to_request_lost(error) from error


def _to_request_lost(error: Exception) -> RequestLost:
    if isinstance(error, httpx2.TimeoutException):
        return RequestLost("stopped taking what it was sent")
    return RequestLost("dropped the connection")


def _collect_headers(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _parse_origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _format_error(error: Exception) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(error)[:200])
