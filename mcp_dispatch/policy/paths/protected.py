"""Paths whose content decides what runs: other programs' and, more strictly, our own."""

from collections.abc import Sequence
from pathlib import Path

from mcp_dispatch.fs.resolve import folded

_DIRECTORIES = frozenset(
    {
        *(".git", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn", ".mvn"),
        ".claude",
    }
)
_FILES = frozenset(
    {
        *(".gitconfig", ".gitmodules", ".bashrc", ".bash_profile", ".bash_login"),
        *(".bash_aliases", ".bash_logout", ".zshrc", ".zprofile", ".zshenv", ".zlogin"),
        *(".zlogout", ".profile", ".envrc", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnp.cjs"),
        *(".pnp.loader.mjs", ".pnpmfile.cjs", "bunfig.toml", ".bunfig.toml", ".bazelrc"),
        *(".bazelversion", ".bazeliskrc", ".pre-commit-config.yaml", "lefthook.yml"),
        *("lefthook.yaml", ".lefthook.yml", ".lefthook.yaml", "gradle-wrapper.properties"),
        *("maven-wrapper.properties", ".devcontainer.json", ".ripgreprc"),
        *("pyrightconfig.json", ".mcp.json", ".claude.json"),
    }
)
_OWN_DIRECTORY = ".mcp-dispatch"
_CLIENT_FILES = (
    (".mcp.json",),
    (".claude.json",),
    ("claude_desktop_config.json",),
    ("windsurf", "mcp_config.json"),
    ("settings", "mcp_settings.json"),
    ("settings", "cline_mcp_settings.json"),
    (".cursor", "mcp.json"),
    (".vscode", "mcp.json"),
    (".vs", "mcp.json"),
    ("code", "user", "mcp.json"),
    ("code - insiders", "user", "mcp.json"),
    (".windsurf", "mcp.json"),
    (".codex", "config.toml"),
    (".gemini", "settings.json"),
    (".qwen", "settings.json"),
    (".lmstudio", "mcp.json"),
    (".continue", "config.json"),
    (".continue", "config.yaml"),
    (".amazonq", "mcp.json"),
    (".kiro", "settings", "mcp.json"),
    ("zed", "settings.json"),
    (".zed", "settings.json"),
    ("opencode", "opencode.json"),
    ("opencode.json",),
    ("goose", "config.yaml"),
)
"""Where MCP clients keep which servers they start, and with which flags: we are one of them."""

_CLIENT_NAMES = frozenset(ending[-1] for ending in _CLIENT_FILES)
_MOST_KNOWN = 1_000


class ProtectedPaths:
    """`private` directories are ours, closed to reads too; `files` are the settings in force."""

    def __init__(self, private: Sequence[Path], files: Sequence[Path]) -> None:
        self._private = frozenset(_folded_parts(path) for path in private)
        self._files = frozenset(_folded_parts(path) for path in files)
        self._known: dict[Path, tuple[str, ...]] = {}

    def private(self, names: Sequence[Path]) -> bool:
        """Whether one of a file's names lies in our configuration or state."""
        every = map(self._parts, names)
        return any(_starts_with(parts, start) for parts in every for start in self._private)

    def own(self, names: Sequence[Path]) -> bool:
        """Whether it decides what this server allows or how a client starts it."""
        return self.private(names) or any(self._is_own(self._parts(name)) for name in names)

    def holds_own(self, names: Sequence[Path]) -> bool:
        """Whether our configuration or state lies somewhere under it."""
        every = map(self._parts, names)
        return any(_starts_with(place, parts) for parts in every for place in self._private)

    def other(self, names: Sequence[Path]) -> bool:
        """Whether it decides what some other program runs."""
        return any(_is_other(self._parts(name)) for name in names)

    def _is_own(self, parts: tuple[str, ...]) -> bool:
        client = parts[-1] in _CLIENT_NAMES and any(
            parts[-len(ending) :] == ending for ending in _CLIENT_FILES
        )
        return client or _OWN_DIRECTORY in parts or parts in self._files

    def _parts(self, path: Path) -> tuple[str, ...]:
        """Every check of a decision asks for the same few paths."""
        parts = self._known.get(path)
        if parts is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            parts = self._known[path] = _folded_parts(path)
        return parts


def _is_other(parts: tuple[str, ...]) -> bool:
    if parts and parts[-1] in _FILES:
        return True
    pairs = zip(parts, (*parts[1:], ""), strict=True)
    return any(
        (part in _DIRECTORIES and (part, after) != (".claude", "worktrees"))
        or (part, after) == (".config", "git")
        for part, after in pairs
    )


def _folded_parts(path: Path) -> tuple[str, ...]:
    """Compared without regard to case and trailing dots: some file systems have none either."""
    return tuple(folded(part.rstrip(" .") or part) for part in path.parts)


def _starts_with(parts: tuple[str, ...], start: tuple[str, ...]) -> bool:
    return parts[: len(start)] == start
