"""Paths whose content decides what programs run: those of other programs, and our own."""

from collections.abc import Sequence
from pathlib import Path

from mcp_dispatch.fs.resolve import fold_case

_PROTECTED_DIRECTORIES = frozenset(
    {
        *(".git", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn", ".mvn"),
        ".claude",
    }
)
_PROTECTED_FILES = frozenset(
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
_CLIENT_CONFIG_PATHS = (
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
"""Files in which MCP clients store which servers they start, such as this one."""

_CLIENT_CONFIG_NAMES = frozenset(ending[-1] for ending in _CLIENT_CONFIG_PATHS)
_MAX_CACHED_PATHS = 1_000


class ProtectedPaths:
    """`private_directories` must not even be read; `settings_files` are those in use."""

    def __init__(self, private_directories: Sequence[Path], settings_files: Sequence[Path]) -> None:
        self._private_directories = frozenset(_fold_parts(path) for path in private_directories)
        self._settings_files = frozenset(_fold_parts(path) for path in settings_files)
        self._parts_by_path: dict[Path, tuple[str, ...]] = {}

    def is_private(self, names: Sequence[Path]) -> bool:
        """Return whether a name of the file lies in our configuration or state directory."""
        folded = map(self._get_parts, names)
        return any(
            _has_prefix(parts, start) for parts in folded for start in self._private_directories
        )

    def is_own_config(self, names: Sequence[Path]) -> bool:
        """Return whether the file decides what this server allows or how a client starts it."""
        return self.is_private(names) or any(
            self._is_own_file(self._get_parts(name)) for name in names
        )

    def contains_private(self, names: Sequence[Path]) -> bool:
        """Return whether our configuration or state directory lies under the path."""
        folded = map(self._get_parts, names)
        return any(
            _has_prefix(private, parts) for parts in folded for private in self._private_directories
        )

    def is_other_config(self, names: Sequence[Path]) -> bool:
        """Return whether the file decides what another program runs."""
        return any(_is_other_file(self._get_parts(name)) for name in names)

    def _is_own_file(self, parts: tuple[str, ...]) -> bool:
        client = parts[-1] in _CLIENT_CONFIG_NAMES and any(
            parts[-len(ending) :] == ending for ending in _CLIENT_CONFIG_PATHS
        )
        return client or _OWN_DIRECTORY in parts or parts in self._settings_files

    def _get_parts(self, path: Path) -> tuple[str, ...]:
        """Return the folded parts of a path, cached: each decision checks a path several times."""
        parts = self._parts_by_path.get(path)
        if parts is None:
            if len(self._parts_by_path) >= _MAX_CACHED_PATHS:
                self._parts_by_path.clear()
            parts = self._parts_by_path[path] = _fold_parts(path)
        return parts


def _is_other_file(parts: tuple[str, ...]) -> bool:
    if parts and parts[-1] in _PROTECTED_FILES:
        return True
    pairs = zip(parts, (*parts[1:], ""), strict=True)
    return any(
        (part in _PROTECTED_DIRECTORIES and (part, after) != (".claude", "worktrees"))
        or (part, after) == (".config", "git")
        for part, after in pairs
    )


def _fold_parts(path: Path) -> tuple[str, ...]:
    """Fold case and remove trailing dots and blanks, which some file systems ignore."""
    return tuple(fold_case(part.rstrip(" .") or part) for part in path.parts)


def _has_prefix(parts: tuple[str, ...], prefix: tuple[str, ...]) -> bool:
    return parts[: len(prefix)] == prefix
