"""What the results of one batch may deliver together."""

from collections.abc import Iterable, Mapping

BATCH_CHARS = 200_000


class Budget:
    """Of one batch. What was decided for a call stays decided, whoever asks again."""

    def __init__(self, chars: int = BATCH_CHARS) -> None:
        self._left = chars
        self._decided: dict[str, bool] = {}

    @property
    def left(self) -> int:
        return self._left

    def admits(self, call_id: str, chars: int) -> bool:
        """Whether the call's result may be delivered as it is; its size is taken off then."""
        if call_id not in self._decided:
            self._decided[call_id] = chars <= self._left
            if chars <= self._left:
                self._left -= chars
        return self._decided[call_id]

    def spend(self, chars: int) -> None:
        """What is delivered in the place of a result that was not admitted."""
        self._left = max(0, self._left - chars)


def to_replace(sizes: Mapping[str, int], chars: int = BATCH_CHARS) -> frozenset[str]:
    """Of a whole batch, by call: the largest results, until the others are within the budget."""
    left = sum(sizes.values())
    chosen: list[str] = []
    for call, size in _largest_first(sizes.items()):
        if left <= chars:
            break
        left -= size
        chosen.append(call)
    return frozenset(chosen)


def _largest_first(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(sizes, key=lambda each: each[1], reverse=True)
