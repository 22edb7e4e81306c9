"""A cache of recently fetched pages, limited in number, size and age."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.web.url import Url

MAX_AGE_SECONDS = 15 * 60
MAX_ENTRIES = 50
MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page as shown to the model. `size` is in bytes received; `note` names what is missing."""

    url: Url
    status: int
    reason: str
    text: str
    size: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class PageKey:
    """Scopes do not share pages, and a page of a private host is not shown without its rule."""

    scope: str
    url: Url
    allow_private: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    page: WebPage
    size: int
    expires_at: float


class PageCache:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[PageKey, _Entry] = {}

    def get(self, key: PageKey) -> WebPage | None:
        self._drop_expired()
        entry = self._entries.get(key)
        return None if entry is None else entry.page

    def put(self, key: PageKey, page: WebPage) -> None:
        self._entries.pop(key, None)
        self._entries[key] = _Entry(page, sys.getsizeof(page.text), self._clock() + MAX_AGE_SECONDS)
        self._drop_expired()

    def _drop_expired(self) -> None:
        """Drop pages that are too old or too many, oldest first."""
        now = self._clock()
        total_size = sum(entry.size for entry in self._entries.values())
        for key, entry in list(self._entries.items()):
            if (
                entry.expires_at > now
                and len(self._entries) <= MAX_ENTRIES
                and total_size <= MAX_BYTES
            ):
                return
            total_size -= entry.size
            del self._entries[key]
