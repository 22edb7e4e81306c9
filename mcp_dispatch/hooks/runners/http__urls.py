"""Where hooks may post to: `allowedHttpHookUrls`."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

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
