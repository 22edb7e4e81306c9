"""Pages that were fetched a short while ago, bounded in number and size."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from mcp_dispatch.web.url import Url

SECONDS = 15 * 60
ENTRIES = 50
BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is shown. `size` is what was received; `note` tells what the text is not."""

    url: Url
    status: int
    reason: str
    text: str
    size: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """Scopes do not share pages, and one that a rule opened is not shown once the rule is gone."""

    scope: str
    url: Url
    opened: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    page: Page
    size: int
    until: float


class PageCache:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}

    def get(self, key: Key) -> Page | None:
        self._drop_old()
        entry = self._entries.get(key)
        return None if entry is None else entry.page

    def put(self, key: Key, page: Page) -> None:
        self._entries.pop(key, None)
        self._entries[key] = _Entry(page, sys.getsizeof(page.text), self._clock() + SECONDS)
        self._drop_old()

    def _drop_old(self) -> None:
        """In order of arrival, which is the order of their ends too."""
        now = self._clock()
        held = sum(entry.size for entry in self._entries.values())
        for key, entry in list(self._entries.items()):
            if entry.until > now and len(self._entries) <= ENTRIES and held <= BYTES:
                return
            held -= entry.size
            del self._entries[key]
