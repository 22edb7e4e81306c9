"""The depth of long tests: quick by default, deep with `MCP_DISPATCH_TEST_DEPTH=deep`."""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

_ItemT = TypeVar("_ItemT")

IS_DEEP = os.environ.get("MCP_DISPATCH_TEST_DEPTH") == "deep"
_SEED = 20_260_817


def choose_count(*, quick: int, deep: int) -> int:
    return deep if IS_DEEP else quick


def sample(items: Sequence[_ItemT], *, quick: int) -> tuple[_ItemT, ...]:
    """Return all items in a deep run, otherwise the same `quick` of them each time."""
    if IS_DEEP or len(items) <= quick:
        return tuple(items)
    return tuple(random.Random(_SEED).sample(items, quick))
