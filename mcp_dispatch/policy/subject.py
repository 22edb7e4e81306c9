"""The subject of a decision: one call, with the files and the command in its arguments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.policy.known_tools import READ_TOOL_PATH_FIELDS, WRITE_TOOL_PATH_FIELDS

_HARMLESS_TOOLS = frozenset({"tool_search", "TaskStop", "read_result"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A call as rules see it. `literal_arguments` are those that the client sent.

    `delivered`: the call reads a stored result that its scope has received before.
    `read_only`: the tool's definition declares that it changes nothing.
    """

    rule_name: str
    exposed_name: str
    server: str | None
    arguments: JsonObject
    literal_arguments: JsonObject
    cwd: Path | None
    delivered: bool = False
    read_only: bool = False
    resolved_paths: Mapping[str, tuple[Path, ...]] = field(default_factory=lambda: {})
    """All names of paths in the arguments, if they were resolved before the decision."""

    @property
    def command(self) -> str | None:
        """The shell text of a Bash call."""
        command = self.arguments.get("command")
        built_in = self.server is None and self.rule_name == "Bash"
        return command if built_in and isinstance(command, str) else None

    @property
    def url(self) -> str | None:
        """The URL of a WebFetch call; empty if the argument is not a string."""
        if self.server is not None or self.rule_name != "WebFetch":
            return None
        url = self.arguments.get("url")
        return url if isinstance(url, str) else ""

    @property
    def read_paths(self) -> tuple[str, ...]:
        """The files or directories that a built-in tool reads."""
        if self.server is not None or self.rule_name not in READ_TOOL_PATH_FIELDS:
            return ()
        path = self.arguments.get(READ_TOOL_PATH_FIELDS[self.rule_name])
        if isinstance(path, str):
            return (path, *self._list_outside_search_roots(Path(path)))
        if self.rule_name == "Read" or self.cwd is None:
            return ()
        return (str(self.cwd), *self._list_outside_search_roots(self.cwd))

    @property
    def write_paths(self) -> tuple[str, ...]:
        """The file that a built-in tool writes."""
        if self.server is not None or self.rule_name not in WRITE_TOOL_PATH_FIELDS:
            return ()
        path = self.arguments.get(WRITE_TOOL_PATH_FIELDS[self.rule_name])
        return (path,) if isinstance(path, str) else ()

    @property
    def harmless(self) -> bool:
        """Whether this is a built-in tool that accesses only data of this server."""
        return self.server is None and self.rule_name in _HARMLESS_TOOLS

    @property
    def changes_nothing(self) -> bool:
        return self.read_only or bool(self.read_paths) or self.harmless or self.url is not None

    def _list_outside_search_roots(self, start: Path) -> tuple[str, ...]:
        """Return the fixed start of a Glob pattern that leaves its directory."""
        pattern = self.arguments.get("pattern") if self.rule_name == "Glob" else None
        if not isinstance(pattern, str) or not (
            pattern.startswith(("/", "~")) or ".." in pattern.split("/")
        ):
            return ()
        fixed = re.split(r"[*?\[{]", pattern)[0]
        return (fixed if fixed.startswith(("/", "~")) else str(start / fixed),)
