"""Runs one http hook: the event is posted, and what comes back is read like stdout."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from mcp_dispatch.hooks.actions import HttpPost
from mcp_dispatch.hooks.output import Failure, Printed
from mcp_dispatch.hooks.output_models import looks_like_json
from mcp_dispatch.processes.environment import inherited

if TYPE_CHECKING:
    import httpx2


_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}
_URL: Final = re.compile(r"(?P<scheme>[^:/?#]+)://(?P<place>[^/?#]*)(?P<rest>.*)", re.DOTALL)


class AllowedUrls:
    """Lists of patterns in which `*` stands for any text; a URL must fit one of each list.

    Scheme, host with port, and the rest are compared each for itself, so that a `*` in the host
    never reaches into the path. Without any list every URL is allowed; an empty one allows none.
    """

    def __init__(self, lists: Iterable[Sequence[str]] = ()) -> None:
        self._lists = [[_read(pattern) for pattern in patterns] for patterns in lists]

    def allow(self, url: str) -> bool:
        parts = _parts(url)
        if parts is None:
            return False
        return all(any(_fits(one, parts) for one in patterns) for patterns in self._lists)


_Pattern = tuple[re.Pattern[str], ...] | None
"""None is a pattern that fits nothing."""


def _read(pattern: str) -> _Pattern:
    if pattern == "*":
        return ()
    parts = _parts(pattern)
    return None if parts is None else tuple(map(_wildcard, parts))


def _fits(pattern: _Pattern, parts: tuple[str, str, str]) -> bool:
    if pattern is None:
        return False
    return all(one.fullmatch(part) for one, part in zip(pattern, parts, strict=bool(pattern)))


def _parts(url: str) -> tuple[str, str, str] | None:
    """Scheme, host with port, and the rest; without user and password, which are no place."""
    match = _URL.fullmatch(url)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    place = match["place"].rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS.get(scheme, ""))
    host, colon, port = place.rpartition(":") if _has_port(place) else (place, "", "")
    rest = match["rest"].partition("#")[0]
    return scheme, f"{host.removesuffix('.')}{colon}{port}", rest if rest[:1] == "/" else f"/{rest}"


def _has_port(place: str) -> bool:
    return re.search(r":[\d*]*$", place) is not None


def _wildcard(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


logger = logging.getLogger(__name__)

LARGEST_ANSWER: Final = 8 << 20
"""Bytes. What is longer is no answer."""

_VARIABLE: Final = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<bare>\w+))", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_FORBIDDEN: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# They frame the message; a hook that could set them could say two things at once.
_OURS: Final = frozenset({"content-length", "transfer-encoding", "connection", "host"})


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What settings say of all http hooks. `variables` None: each hook's own list decides."""

    urls: AllowedUrls = field(default_factory=AllowedUrls)
    variables: frozenset[str] | None = None


class HttpRunner:
    """Redirects are not followed and no proxy is used: the answer is that of the URL as written."""

    def __init__(self, environ: Mapping[str, str], limits: HttpLimits | None = None) -> None:
        self._environ = inherited(environ)
        self._limits = limits or HttpLimits()

    async def run(self, post: HttpPost, document: bytes) -> Printed | Failure:
        """Never raises on account of the other side: what goes wrong is a `Failure`."""
        if not self._limits.urls.allow(post.url):
            return Failure("its URL is not among allowedHttpHookUrls")
        headers = self._headers(post)
        if isinstance(headers, Failure):
            return headers
        heard: Printed | Failure | None = None
        try:
            with anyio.move_on_after(post.seconds):
                heard = await _converse(post.url, headers, document)
        except Exception as error:  # guards against whatever answers there
            logger.debug("hook %s", post.label, exc_info=True)
            return Failure(f"cannot be reached: {_named(error)}")
        return heard or Failure(f"timed out after {post.seconds:g} s", timed_out=True)

    def _headers(self, post: HttpPost) -> list[tuple[str, str]] | Failure:
        usable = frozenset(post.variables)
        if self._limits.variables is not None:
            usable &= self._limits.variables

        def value(match: re.Match[str]) -> str:
            name = match["braced"] or match["bare"]
            return self._environ.get(name, "") if name in usable else ""

        headers = [("content-type", "application/json"), ("accept-encoding", "identity")]
        for name, text in post.headers:
            expanded = _VARIABLE.sub(value, text).strip()
            if not _NAME.fullmatch(name) or name.lower() in _OURS:
                return Failure(f"its header {name!r} cannot be sent")
            # Not the value: it may be a secret.
            if _FORBIDDEN.search(expanded) or not expanded.isascii():
                return Failure(f"the value of its header {name!r} cannot be sent")
            headers = [each for each in headers if each[0] != name.lower()]
            headers.append((name, expanded))
        return headers


async def _converse(url: str, headers: list[tuple[str, str]], document: bytes) -> Printed | Failure:
    import httpx2

    async with (
        httpx2.AsyncClient(timeout=None, follow_redirects=False, trust_env=False) as client,
        client.stream("POST", url, content=document, headers=headers) as answer,
    ):
        if not answer.is_success:
            return Failure(f"answered with status {answer.status_code}, which decides nothing")
        body = await _body(answer)
    if body is None:
        return Failure(f"answered with more than {LARGEST_ANSWER} bytes")
    text = body.decode("utf-8", "replace")
    if text.strip() and not looks_like_json(text):
        return Failure(f"answered {answer.status_code} with something that is no JSON object")
    return Printed(0, text)


async def _body(answer: "httpx2.Response") -> bytes | None:
    """As it was sent: what a hostile server has packed is not unpacked."""
    kept = bytearray()
    async for chunk in answer.aiter_raw():
        kept += chunk
        if len(kept) > LARGEST_ANSWER:
            return None
    return bytes(kept)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
