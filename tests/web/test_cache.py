"""Cached pages: limited in age, number and size."""

from mcp_dispatch.web.cache import (
    MAX_AGE_SECONDS,
    MAX_BYTES,
    MAX_ENTRIES,
    PageCache,
    PageKey,
    WebPage,
)
from mcp_dispatch.web.url import Url


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _key(number: int, *, scope: str = "scope", opened: bool = False) -> PageKey:
    return PageKey(scope, Url("https", "example.com", 443, f"/{number}"), opened)


def _page(text: str) -> WebPage:
    return WebPage(Url("https", "example.com", 443, "/"), 200, "OK", text, len(text))


def test_a_page_is_found_by_the_scope_and_the_rule_it_was_fetched_under() -> None:
    cache = PageCache(Clock())
    cache.put(_key(1), _page("one"))

    assert cache.get(_key(1)) == _page("one")
    assert cache.get(_key(2)) is None
    assert cache.get(_key(1, scope="other")) is None
    assert cache.get(_key(1, opened=True)) is None


def test_a_page_expires() -> None:
    clock = Clock()
    cache = PageCache(clock)
    cache.put(_key(1), _page("one"))

    clock.now = MAX_AGE_SECONDS - 1
    assert cache.get(_key(1)) is not None
    clock.now = MAX_AGE_SECONDS
    assert cache.get(_key(1)) is None


def test_the_oldest_page_is_dropped_when_there_are_too_many() -> None:
    cache = PageCache(Clock())
    for number in range(MAX_ENTRIES + 1):
        cache.put(_key(number), _page("x"))

    assert cache.get(_key(0)) is None
    assert cache.get(_key(1)) is not None
    assert cache.get(_key(MAX_ENTRIES)) is not None


def test_old_pages_are_dropped_for_large_ones() -> None:
    cache = PageCache(Clock())
    cache.put(_key(1), _page("a" * (MAX_BYTES // 2)))
    cache.put(_key(2), _page("b" * (MAX_BYTES // 4)))
    cache.put(_key(3), _page("c" * (MAX_BYTES // 3)))

    assert cache.get(_key(1)) is None
    assert cache.get(_key(2)) is not None
    assert cache.get(_key(3)) is not None


def test_a_page_larger_than_the_cache_is_not_cached() -> None:
    cache = PageCache(Clock())
    cache.put(_key(1), _page("a" * (MAX_BYTES + 1)))

    assert cache.get(_key(1)) is None
