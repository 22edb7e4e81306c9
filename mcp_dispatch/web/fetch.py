"""Fetches a page over HTTP; redirects to another origin are returned, not followed."""

import ssl
from dataclasses import dataclass
from http.client import responses

import anyio
import httpcore2

from mcp_dispatch.web.body import build_too_large_error, read_body
from mcp_dispatch.web.content_type import ContentKind, ContentType, parse_content_type
from mcp_dispatch.web.errors import BadUrl, CannotFetch, HostUnreachable
from mcp_dispatch.web.limits import FetchLimits, Resolver
from mcp_dispatch.web.pinned_network import PinnedNetworkBackend
from mcp_dispatch.web.url import Url
from mcp_dispatch.wire.gunzip import ACCEPT_ENCODING

_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1"
_USER_AGENT = "mcp-dispatch (WebFetch)"
_MAX_REASON_CHARS = 300


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The response for `url`, which is the last URL after redirects within the origin."""

    url: Url
    status: int
    reason: str
    content_type: ContentType
    body: bytes


@dataclass(frozen=True, slots=True)
class RedirectResponse:
    """A redirect to another origin, which the caller decides about."""

    url: Url
    status: int
    reason: str
    target: Url


class WebFetcher:
    """Fetches without cookies, credentials or proxies. `tls` has the trusted certificates."""

    def __init__(
        self, resolve: Resolver, limits: FetchLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        self._resolve = resolve
        self._limits = limits
        self._tls = tls or httpcore2.default_ssl_context()

    async def fetch(self, url: Url, *, allow_private: bool) -> FetchResponse | RedirectResponse:
        """Fetch a page. `allow_private`: a rule names the host. Raises `CannotFetch`."""
        limits = self._limits
        try:
            with anyio.fail_after(limits.seconds):
                return await self._follow_redirects(url, allow_private)
        except TimeoutError as error:
            raise CannotFetch(
                f"{url} was not delivered within {limits.seconds:g} seconds; try again later"
            ) from error
        except (httpcore2.ConnectTimeout, httpcore2.ConnectError) as error:
            raise _build_connect_error(url, error, limits.connect_seconds) from error
        except (
            httpcore2.NetworkError,
            httpcore2.ProtocolError,
            httpcore2.TimeoutException,
        ) as error:
            problem = _sanitize_reason(str(error)) or type(error).__name__
            raise CannotFetch(f"{url} could not be fetched: {problem}") from error

    async def _follow_redirects(
        self, start: Url, allow_private: bool
    ) -> FetchResponse | RedirectResponse:
        url = start
        for _ in range(self._limits.max_redirects + 1):
            step = await self._get(url, allow_private)
            if isinstance(step, FetchResponse) or not _is_same_origin(step.target, url):
                return step
            url = step.target
        raise CannotFetch(f"{start} redirects more than {self._limits.max_redirects} times")

    async def _get(self, url: Url, allow_private: bool) -> FetchResponse | RedirectResponse:
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=1,
            network_backend=PinnedNetworkBackend(self._resolve, allow_private=allow_private),
        )
        async with (
            pool,
            pool.stream(
                "GET",
                # Pass the URL in parts, so that it is not parsed a second time in another way.
                httpcore2.URL(
                    scheme=url.scheme,
                    host=url.host.strip("[]"),
                    port=url.port,
                    target=url.target,
                ),
                headers=_build_headers(url),
                extensions={"timeout": {"connect": self._limits.connect_seconds}},
            ) as response,
        ):
            return await self._read_response(url, response)

    async def _read_response(
        self, url: Url, response: httpcore2.Response
    ) -> FetchResponse | RedirectResponse:
        fields = _join_header_fields(response)
        # Use the standard phrase: the phrase of the server is untrusted text.
        reason = responses.get(response.status, "")
        if response.status in _REDIRECT_STATUSES and "location" in fields:
            target = _resolve_redirect(url, fields["location"])
            return RedirectResponse(url, response.status, reason, target)
        media = parse_content_type(fields.get("content-type", ""))
        size = _parse_content_length(fields)
        if media.kind is ContentKind.OTHER:
            if 200 <= response.status < 300:
                raise build_unreadable_error(url, media, size)
            return FetchResponse(url, response.status, reason, media, b"")
        if size is not None and size > self._limits.max_body_bytes:
            raise build_too_large_error(self._limits.max_body_bytes)
        encoding = fields.get("content-encoding", "")
        body = await read_body(response.aiter_stream(), encoding, self._limits.max_body_bytes)
        return FetchResponse(url, response.status, reason, media, body)


def _build_connect_error(
    url: Url, error: httpcore2.ConnectTimeout | httpcore2.ConnectError, seconds: float
) -> CannotFetch:
    if isinstance(error, httpcore2.ConnectTimeout):
        return HostUnreachable(f"{url} could not be reached within {seconds:g} seconds")
    if any(isinstance(cause, ssl.SSLError) for cause in error.args):
        problem = _sanitize_reason(str(error))
        return CannotFetch(f"{url} offers no secure connection that can be trusted: {problem}")
    return HostUnreachable(f"{url} could not be reached: {_sanitize_reason(str(error))}")


def build_unreadable_error(url: Url, content_type: ContentType, size: int | None) -> CannotFetch:
    length = "of unknown size" if size is None else f"of {size:,} bytes"
    return CannotFetch(
        f"{url} is {content_type.type or 'binary data'} {length}; WebFetch reads HTML, text and JSON only."
        " To have the file, download it with a command."
    )


def _build_headers(url: Url) -> list[tuple[str, str]]:
    return [
        ("Host", url.authority),
        ("User-Agent", _USER_AGENT),
        ("Accept", _ACCEPT),
        ("Accept-Encoding", ACCEPT_ENCODING),
        ("Connection", "close"),
    ]


def _join_header_fields(response: httpcore2.Response) -> dict[str, str]:
    """Return the header fields by lower-case name; repeated fields are joined."""
    fields: dict[str, str] = {}
    for name, value in response.headers:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        fields[key] = f"{fields[key]}, {text}" if key in fields else text
    return fields


def _parse_content_length(fields: dict[str, str]) -> int | None:
    length = fields.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else None


def _resolve_redirect(url: Url, location: str) -> Url:
    try:
        target = url.resolve(location)
    except BadUrl as error:
        raise CannotFetch(f"{url} redirects to what cannot be fetched: {error}") from error
    if target.host == url.host and (url.scheme, target.scheme) == ("https", "http"):
        raise CannotFetch(f"{url} redirects to {target}, from https to http; that is not followed")
    return target


def _is_same_origin(one: Url, other: Url) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _sanitize_reason(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MAX_REASON_CHARS])
