"""Many rules about hosts: a host is tried only on those that end as it does."""

from collections.abc import Iterator, Mapping

from mcp_dispatch.policy.domains import DomainPattern

_KEY = 2
"""By how many of its last labels a pattern is filed."""


class DomainIndex:
    """Patterns known by their position."""

    def __init__(self, patterns: Mapping[int, DomainPattern]) -> None:
        self._patterns = patterns
        self._filed: dict[tuple[str, ...], list[int]] = {}
        for at, pattern in patterns.items():
            self._filed.setdefault(_key(pattern), []).append(at)

    def covering(self, host: str | None) -> Iterator[int]:
        """The patterns that mean the host. All may mean one that cannot be read."""
        if host is None:
            yield from self._patterns
            return
        labels = host.split(".")
        for length in range(min(_KEY, len(labels)) + 1):
            for at in self._filed.get(tuple(labels[len(labels) - length :]), ()):
                if self._patterns[at].covers(host):
                    yield at


def _key(pattern: DomainPattern) -> tuple[str, ...]:
    """Its last labels, up to the first that has a `*`."""
    key: list[str] = []
    for label in reversed(pattern.labels[-_KEY:]):
        if not label.literal:
            break
        key.insert(0, label.pieces[0])
    return tuple(key)
