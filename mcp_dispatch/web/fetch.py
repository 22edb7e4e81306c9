"""One page over HTTP: every hop checked, redirects to elsewhere reported instead of followed."""

import ssl
from dataclasses import dataclass
from http.client import responses

import anyio
import httpcore2

from mcp_dispatch.web.body import ACCEPT_ENCODING, read_body, too_large
from mcp_dispatch.web.content_type import Kind, Media, media_of
from mcp_dispatch.web.errors import BadUrl, CannotFetch, Unreachable
from mcp_dispatch.web.limits import Limits, Resolve
from mcp_dispatch.web.pinned_network import CheckedNetwork
from mcp_dispatch.web.url import Url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1"
_USER_AGENT = "mcp-dispatch (WebFetch)"
_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """`url` is where redirects on the same host have led to."""

    url: Url
    status: int
    reason: str
    media: Media
    body: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """A redirect that the caller has to decide about."""

    url: Url
    status: int
    reason: str
    target: Url


class Web:
    """Fetches without cookies, credentials or proxies. `tls` says whose certificates are trusted."""

    def __init__(self, resolve: Resolve, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self._resolve = resolve
        self._limits = limits
        self._tls = tls or httpcore2.default_ssl_context()

    async def fetch(self, url: Url, *, opened: bool) -> Answer | Moved:
        """Raises `CannotFetch`. `opened`: a rule names the host, which may be a private one."""
        limits = self._limits
        try:
            with anyio.fail_after(limits.seconds):
                return await self._follow(url, opened)
        except TimeoutError as error:
            raise CannotFetch(
                f"{url} was not delivered within {limits.seconds:g} seconds; try again later"
            ) from error
        except (httpcore2.ConnectTimeout, httpcore2.ConnectError) as error:
            raise _no_connection(url, error, limits.connect_seconds) from error
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.TimeoutException,
        ) as error:
            problem = _short(str(error)) or type(error).__name__
            raise CannotFetch(f"{url} could not be fetched: {problem}") from error

    async def _follow(self, start: Url, opened: bool) -> Answer | Moved:
        url = start
        for _ in range(self._limits.redirects + 1):
            step = await self._get(url, opened)
            if isinstance(step, Answer) or not _same_place(step.target, url):
                return step
            url = step.target
        raise CannotFetch(f"{start} redirects more than {self._limits.redirects} times")

    async def _get(self, url: Url, opened: bool) -> Answer | Moved:
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=1,
            network_backend=CheckedNetwork(self._resolve, opened=opened),
        )
        async with (
            pool,
            pool.stream(
                "GET",
                # In parts, so that nobody reads the URL a second time and otherwise.
                httpcore2.URL(
                    scheme=url.scheme,
                    host=url.host.strip("[]"),
                    port=url.port,
                    target=url.target,
                ),
                headers=_headers(url),
                extensions={"timeout": {"connect": self._limits.connect_seconds}},
            ) as response,
        ):
            return await self._take(url, response)

    async def _take(self, url: Url, response: httpcore2.Response) -> Answer | Moved:
        fields = _fields(response)
        # By the book: what the server calls it is one more foreign text.
        reason = responses.get(response.status, "")
        if response.status in _REDIRECTS and "location" in fields:
            target = _target(url, fields["location"])
            return Moved(url, response.status, reason, target)
        media = media_of(fields.get("content-type", ""))
        size = _declared_size(fields)
        if media.kind is Kind.OTHER:
            if 200 <= response.status < 300:
                raise unreadable(url, media, size)
            return Answer(url, response.status, reason, media, b"")
        if size is not None and size > self._limits.body:
            raise too_large(self._limits.body)
        encoding = fields.get("content-encoding", "")
        body = await read_body(response.aiter_stream(), encoding, self._limits.body)
        return Answer(url, response.status, reason, media, body)


def _no_connection(
    url: Url, error: httpcore2.ConnectTimeout | httpcore2.ConnectError, seconds: float
) -> CannotFetch:
    if isinstance(error, httpcore2.ConnectTimeout):
        return Unreachable(f"{url} could not be reached within {seconds:g} seconds")
    if any(isinstance(cause, ssl.SSLError) for cause in error.args):
        problem = _short(str(error))
        return CannotFetch(f"{url} offers no secure connection that can be trusted: {problem}")
    return Unreachable(f"{url} could not be reached: {_short(str(error))}")


def unreadable(url: Url, media: Media, size: int | None) -> CannotFetch:
    length = "of unknown size" if size is None else f"of {size:,} bytes"
    return CannotFetch(
        f"{url} is {media.type or 'binary data'} {length}; WebFetch reads HTML, text and JSON only."
        " To have the file, download it with a command."
    )


def _headers(url: Url) -> list[tuple[str, str]]:
    return [
        ("Host", url.authority),
        ("User-Agent", _USER_AGENT),
        ("Accept", _ACCEPT),
        ("Accept-Encoding", ACCEPT_ENCODING),
        ("Connection", "close"),
    ]


def _fields(response: httpcore2.Response) -> dict[str, str]:
    """The header fields by their names in lower case; those that come twice are joined."""
    fields: dict[str, str] = {}
    for name, value in response.headers:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    return fields


def _declared_size(fields: dict[str, str]) -> int | None:
    length = fields.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None


def _target(url: Url, location: str) -> Url:
    try:
        target = url.joined(location)
    except BadUrl as error:
        raise CannotFetch(f"{url} redirects to what cannot be fetched: {error}") from error
    if target.host == url.host and (url.scheme, target.scheme) == ("https", "http"):
        raise CannotFetch(f"{url} redirects to {target}, from https to http; that is not followed")
    return target


def _same_place(one: Url, other: Url) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _short(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_REASON])
