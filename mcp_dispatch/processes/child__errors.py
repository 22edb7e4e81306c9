"""What can go wrong when a child process is started."""

from collections.abc import Sequence
from pathlib import Path

from mcp_dispatch.model.errors import MCPDispatchError


class CannotStart(MCPDispatchError):
    """The executable, its arguments or its directory are not usable; nothing was started."""

    def __init__(self, executable: str, problem: str) -> None:
        super().__init__(f"cannot start {executable!r}: {problem}")
        self.executable = executable
        self.problem = problem


def cannot_start(argv: Sequence[str], cwd: Path, error: OSError | ValueError) -> CannotStart:
    """The system's error in words that say what to change."""
    if not cwd.is_dir():
        return CannotStart(argv[0], f"the directory {str(cwd)!r} does not exist")
    if isinstance(error, FileNotFoundError):
        return CannotStart(argv[0], "no such executable; install it, or correct the name or PATH")
    if isinstance(error, PermissionError):
        return CannotStart(
            argv[0], f"not permitted; it must be executable and {str(cwd)!r} must be accessible"
        )
    if isinstance(error, OSError):
        return CannotStart(argv[0], error.strerror or str(error))
    return CannotStart(argv[0], f"its arguments or environment are not usable: {error}")
