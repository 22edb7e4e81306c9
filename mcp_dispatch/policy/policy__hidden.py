"""What a search leaves out, worked out when a search first asks: most calls never do."""

from collections.abc import Callable
from pathlib import Path

from mcp_dispatch.policy.policy import Policy


class Hidden:
    """Whether rules hide a file, for the length of one call."""

    def __init__(self, policy: Policy, cwd: Path | None) -> None:
        self._policy = policy
        self._cwd = cwd
        self._answer: Callable[[Path], bool] | None = None

    def __call__(self, path: Path) -> bool:
        if self._answer is None:
            self._answer = self._policy.hiding(self._cwd)
        return self._answer(path)
