"""Requests to one server over HTTP: its headers, its redirects, and what went wrong in words."""

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
from mcp_dispatch.upstream.errors import NotTaken, RequestLost, Unreachable
from mcp_dispatch.upstream.transports.body import ACCEPT_ENCODING, unpacked
from mcp_dispatch.upstream.transports.headers import Headers

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Those that keep the method: a POST that becomes a GET is another request.
_KEEPING: Final = frozenset({307, 308})
_MOST_REDIRECTS: Final = 3
_UNAUTHORISED: Final = frozenset({401, 403})
_NEVER_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
# Seconds. Shorter than the common servers keep an idle connection open: a request must not be
# written to one that is being closed. And how long a server may refuse to read what we write.
_KEPT_ALIVE: Final = 3.0
_WRITE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer; the body comes in `chunks`, which raise `RequestLost`."""

    status: int
    fields: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    @property
    def media(self) -> str:
        return self.fields.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def good(self) -> bool:
        return 200 <= self.status < 300


class HttpClient:
    """One pool of connections, to one origin; left, nothing of it is open."""

    def __init__(self, url: str, headers: Headers, connect: float) -> None:
        """Raises `NotTaken` where there can be no request to that URL."""
        # It would write down whole URLs, which may hold secrets.
        for name in ("httpx2", "httpcore2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        try:
            self.url = httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise NotTaken('has a "url" that is none') from error
        self._headers = headers
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=connect, write=_WRITE),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT_ALIVE
            ),
            headers={"User-Agent": f"mcp-dispatch/{__version__}"},
            verify=_tls(self.url),
            trust_env=self.url.host not in _LOOPBACK,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    def within(self, location: str) -> httpx2.URL:
        """A URL that the server named. Raises `NotTaken` where it leads to another origin."""
        try:
            target = self.url.join(location)
        except (httpx2.InvalidURL, ValueError) as error:
            raise NotTaken("named an address that is none") from error
        if _origin(target) != _origin(self.url):
            raise NotTaken(
                f"points to another origin, {shown_origin(target)}, which is not followed; "
                'correct its "url" if that is where it is now'
            )
        return target

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        url: httpx2.URL | None = None,
    ) -> AsyncGenerator[Answer, None]:
        """Raises `NotTaken` and `RequestLost`.

        A request that was refused for its credentials is sent once more, if there are new ones.
        """
        target = url or self.url
        own = await self._headers.current()
        response = await self._follow(method, target, {**own, **headers}, body)
        if response.status_code in _UNAUTHORISED:
            try:
                changed = await self._headers.renewed(own)
            except NotTaken:
                await response.aclose()
                raise
            if changed:
                await response.aclose()
                own = await self._headers.current()
                response = await self._follow(method, target, {**own, **headers}, body)
        try:
            yield Answer(response.status_code, _fields(response), _body(response))
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _follow(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        for _ in range(_MOST_REDIRECTS):
            response = await self._send(method, url, headers, body)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return response
            await response.aclose()
            if method != "GET" and response.status_code not in _KEEPING:
                raise NotTaken(
                    f"answers with a redirect ({response.status_code}) that would "
                    'turn the request into another; correct its "url"'
                )
            url = self.within(location)
        raise NotTaken(f"redirects more than {_MOST_REDIRECTS} times")

    async def _send(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        sent = {**headers, "Accept-Encoding": ACCEPT_ENCODING}
        request = self._http.build_request(method, url, headers=sent, content=body)
        try:
            return await self._http.send(request, stream=True)
        except _NEVER_SENT as error:
            problem = _words(error) or "no connection"
            raise Unreachable(f"cannot be reached at {shown_origin(url)}: {problem}") from error
        except httpx2.HTTPError as error:
            raise _dropped(error) from error


def _tls(url: httpx2.URL) -> ssl.SSLContext | bool:
    """To read everybody's certificates takes a while: only where there is one to be checked."""
    return True if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def shown_origin(url: httpx2.URL) -> str:
    """No more than this is ever shown of a URL: its path, too, may be a secret."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


def refusal(status: int) -> NotTaken | RequestLost:
    """What an answer without a message of the protocol means for its request."""
    try:
        words = f"answered HTTP {status} ({HTTPStatus(status).phrase})"
    except ValueError:
        words = f"answered HTTP {status}"
    if status in _UNAUTHORISED:
        return NotTaken(
            f'{words}: it wants other credentials; give them in "headers" or "headersHelper"'
        )
    # Whatever is below 500 was turned away; a gateway's error says nothing about the server.
    return NotTaken(words) if 400 <= status < 500 and status != 408 else RequestLost(words)


async def _body(response: httpx2.Response) -> AsyncIterator[bytes]:
    encoding = response.headers.get("content-encoding", "")
    try:
        async for piece in unpacked(response.aiter_raw(), encoding):
            yield piece
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise _dropped(error) from error


def _dropped(error: Exception) -> RequestLost:
    if isinstance(error, httpx2.TimeoutException):
        return RequestLost("stopped taking what it was sent")
    return RequestLost("dropped the connection")


def _fields(response: httpx2.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _words(error: Exception) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in str(error)[:200])
