"""Pages that were fetched a short while ago, bounded in number and size."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.web.url import Url

MAX_AGE_SECONDS = 15 * 60
MAX_ENTRIES = 50
MAX_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page as it is shown. `size` is what was received; `note` tells what the text is not."""

    url: Url
    status: int
    reason: str
    text: str
    size: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class PageKey:
    """Scopes do not share pages, and one that a rule opened is not shown once the rule is gone."""

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
        """In order of arrival, which is the order of their ends too."""
        now = self._clock()
        held = sum(entry.size for entry in self._entries.values())
        for key, entry in list(self._entries.items()):
            if entry.expires_at > now and len(self._entries) <= MAX_ENTRIES and held <= MAX_BYTES:
                return
            held -= entry.size
            del self._entries[key]
