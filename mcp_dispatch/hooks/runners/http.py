"""Runs an http hook: posts the input and treats the response body like stdout."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from mcp_dispatch.hooks.actions import HttpPost
from mcp_dispatch.hooks.output import HookFailure, HookOutput
from mcp_dispatch.hooks.output_models import is_json_like
from mcp_dispatch.processes.environment import remove_own_variables

if TYPE_CHECKING:
    import httpx2


_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_URL: Final = re.compile(r"(?P<scheme>[^:/?#]+)://(?P<place>[^/?#]*)(?P<rest>.*)", re.DOTALL)


class AllowedUrls:
    """Lists of patterns in which `*` matches any text; a URL must match one pattern of each list.

    Scheme, host with port, and the rest are compared separately, so that a `*` in the host never
    matches part of the path. Without lists every URL is allowed; an empty list allows none.
    """

    def __init__(self, lists: Iterable[Sequence[str]] = ()) -> None:
        self._lists = [
            [_compile_url_pattern(pattern) for pattern in patterns] for patterns in lists
        ]

    def allows(self, url: str) -> bool:
        parts = _split_url(url)
        if parts is None:
            return False
        return all(
            any(_matches_pattern(one, parts) for one in patterns) for patterns in self._lists
        )


_UrlPattern = tuple[re.Pattern[str], ...] | None
"""None is a pattern that matches nothing."""


def _compile_url_pattern(pattern: str) -> _UrlPattern:
    if pattern == "*":
        return ()
    parts = _split_url(pattern)
    return None if parts is None else tuple(map(_compile_wildcard, parts))


def _matches_pattern(pattern: _UrlPattern, parts: tuple[str, str, str]) -> bool:
    if pattern is None:
        return False
    return all(one.fullmatch(part) for one, part in zip(pattern, parts, strict=bool(pattern)))


def _split_url(url: str) -> tuple[str, str, str] | None:
    """Return scheme, host with port, and the rest, without user and password."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    place = match["place"].rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
    host, colon, port = place.rpartition(":") if _has_port(place) else (place, "", "")
    rest = match["rest"].partition("#")[0]
    return scheme, f"{host.removesuffix('.')}{colon}{port}", rest if rest[:1] == "/" else f"/{rest}"


def _has_port(authority: str) -> bool:
    return re.search(r":[\d*]*$", authority) is not None


def _compile_wildcard(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


logger = logging.getLogger(__name__)

MAX_RESPONSE_BYTES: Final = 8 << 20
"""A longer response body is a failure."""

_VARIABLE_REFERENCE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FORBIDDEN_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# These headers frame the message; a hook that set them could smuggle a second request.
_RESERVED_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection", "host"})


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits for all http hooks. If `variables` is None, only each hook's own list applies."""

    urls: AllowedUrls = field(default_factory=AllowedUrls)
    variables: frozenset[str] | None = None


class HttpRunner:
    """Posts without redirects and proxies, so that only the configured URL can answer."""

    def __init__(self, environ: Mapping[str, str], limits: HttpLimits | None = None) -> None:
        self._environ = remove_own_variables(environ)
        self._limits = limits or HttpLimits()

    async def run(self, post: HttpPost, document: bytes) -> HookOutput | HookFailure:
        """Return the output, or a `HookFailure` for any error; never raise for one."""
        if not self._limits.urls.allows(post.url):
            return HookFailure("its URL is not among allowedHttpHookUrls")
        headers = self._build_headers(post)
        if isinstance(headers, HookFailure):
            return headers
        heard: HookOutput | HookFailure | None = None
        try:
            with anyio.move_on_after(post.timeout_seconds):
                heard = await _post_document(post.url, headers, document)
        except Exception as error:  # the server may send anything
            logger.debug("hook %s", post.label, exc_info=True)
            return HookFailure(f"cannot be reached: {_format_error(error)}")
        return heard or HookFailure(f"timed out after {post.timeout_seconds:g} s", timed_out=True)

    def _build_headers(self, post: HttpPost) -> list[tuple[str, str]] | HookFailure:
        usable = frozenset(post.variables)
        if self._limits.variables is not None:
            usable &= self._limits.variables

        def expand_variable(match: re.Match[str]) -> str:
            name = match["braced"] or match["bare"]
            return self._environ.get(name, "") if name in usable else ""

        headers = [("content-type", "application/json"), ("accept-encoding", "identity")]
        for name, text in post.headers:
            expanded = _VARIABLE_REFERENCE.sub(expand_variable, text).strip()
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _RESERVED_HEADERS:
                return HookFailure(f"its header {name!r} cannot be sent")
            # Not the value: it may be a secret.
            if _FORBIDDEN_CHARACTERS.search(expanded) or not expanded.isascii():
                return HookFailure(f"the value of its header {name!r} cannot be sent")
            headers = [each for each in headers if each[0] != name.lower()]
            headers.append((name, expanded))
        return headers


async def _post_document(
    url: str, headers: list[tuple[str, str]], document: bytes
) -> HookOutput | HookFailure:
    import httpx2

    async with (
        httpx2.AsyncClient(timeout=None, follow_redirects=False, trust_env=False) as client,
        client.stream("POST", url, content=document, headers=headers) as answer,
    ):
        if not answer.is_success:
            return HookFailure(f"answered with status {answer.status_code}, which decides nothing")
        body = await _read_body(answer)
    if body is None:
        return HookFailure(f"answered with more than {MAX_RESPONSE_BYTES} bytes")
    text = body.decode("utf-8", "replace")
    if text.strip() and not is_json_like(text):
        return HookFailure(f"answered {answer.status_code} with something that is no JSON object")
    return HookOutput(0, text)


async def _read_body(response: "httpx2.Response") -> bytes | None:
    """Return the raw body without decompressing it, or None if it is too long."""
    kept = bytearray()
    async for chunk in response.aiter_raw():
        kept += chunk
        if len(kept) > MAX_RESPONSE_BYTES:
            return None
    return bytes(kept)


def _format_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
