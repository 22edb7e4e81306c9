"""What a decision is about: one call, and the files and commands in it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcp_dispatch.model.json import JsonObject

READ_TOOL_PATH_FIELDS = {"Read": "file_path", "Grep": "path", "Glob": "path"}
WRITE_TOOL_PATH_FIELDS = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
_HARMLESS_TOOLS = frozenset({"tool_search", "TaskStop", "read_result"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A call as rules see it. `literal_arguments` are those of the client, before any change.

    `delivered`: it reads a kept result that this scope was given. `read_only`: the tool says so.
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
    """All names of a path above, found before it is judged; a path that is not here is looked up."""

    @property
    def command(self) -> str | None:
        """The shell text of a Bash call."""
        command = self.arguments.get("command")
        built_in = self.server is None and self.rule_name == "Bash"
        return command if built_in and isinstance(command, str) else None

    @property
    def url(self) -> str | None:
        """What a WebFetch call asks for; empty where it is no text."""
        if self.server is not None or self.rule_name != "WebFetch":
            return None
        url = self.arguments.get("url")
        return url if isinstance(url, str) else ""

    @property
    def read_paths(self) -> tuple[str, ...]:
        """The files or directories that a built-in reads."""
        if self.server is not None or self.rule_name not in READ_TOOL_PATH_FIELDS:
            return ()
        named = self.arguments.get(READ_TOOL_PATH_FIELDS[self.rule_name])
        if isinstance(named, str):
            return (named, *self._list_outside_search_roots(Path(named)))
        if self.rule_name == "Read" or self.cwd is None:
            return ()
        return (str(self.cwd), *self._list_outside_search_roots(self.cwd))

    @property
    def write_paths(self) -> tuple[str, ...]:
        """The file that a built-in writes."""
        if self.server is not None or self.rule_name not in WRITE_TOOL_PATH_FIELDS:
            return ()
        named = self.arguments.get(WRITE_TOOL_PATH_FIELDS[self.rule_name])
        return (named,) if isinstance(named, str) else ()

    @property
    def harmless(self) -> bool:
        """A built-in that touches nothing but our own answers."""
        return self.server is None and self.rule_name in _HARMLESS_TOOLS

    @property
    def changes_nothing(self) -> bool:
        """Whether it changes nothing."""
        return self.read_only or bool(self.read_paths) or self.harmless or self.url is not None

    def _list_outside_search_roots(self, start: Path) -> tuple[str, ...]:
        """Where a Glob pattern that leaves its directory begins."""
        pattern = self.arguments.get("pattern") if self.rule_name == "Glob" else None
        if not isinstance(pattern, str) or not (
            pattern.startswith(("/", "~")) or ".." in pattern.split("/")
        ):
            return ()
        fixed = re.split(r"[*?\[{]", pattern)[0]
        return (fixed if fixed.startswith(("/", "~")) else str(start / fixed),)
