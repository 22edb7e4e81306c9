"""Lists the settings files of a workspace and their precedence."""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from platformdirs import user_config_dir as platform_config_dir

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.read_file import read_regular_file

_MAX_POINTER_BYTES = 4096


def find_repository_root(directory: Path) -> Path | None:
    """Return the main checkout that contains the real path `directory`.

    Return None outside of git, if the checkout is the home directory, or if another user owns it. A
    worktree leads to its main checkout only if that checkout lists the worktree: otherwise any
    folder could claim to be part of any other.
    """
    if sys.platform == "win32":
        return None
    try:
        checkout = _find_checkout(directory)
        if checkout is None or checkout == Path.home().resolve():
            return None
        return checkout if checkout.stat().st_uid == os.geteuid() else None
    except (OSError, RuntimeError, ValueError):
        return None  # circular links or invalid names


def _find_checkout(directory: Path) -> Path | None:
    for place in (directory, *directory.parents):
        git = place / ".git"
        if git.is_dir():
            return place
        if git.is_file():
            return _find_main_checkout(git) or place
    return None


def _find_main_checkout(git: Path) -> Path | None:
    """Return the checkout that a worktree's `.git` file points to, if it points back."""
    pointer = _read_pointer(git)
    if pointer is None or not pointer.startswith("gitdir:"):
        return None
    private = git.parent / pointer.removeprefix("gitdir:").strip()
    common, back = _read_pointer(private / "commondir"), _read_pointer(private / "gitdir")
    if common is None or back is None:
        return None
    repository = (private / common).resolve()
    genuine = (
        (private / back).resolve() == git.resolve()
        and private.resolve().parent == repository / "worktrees"
        and repository.name == ".git"
    )
    return repository.parent if genuine else None


def _read_pointer(file: Path) -> str | None:
    """Return the content of one of git's one-line files."""
    try:
        content = read_regular_file(file, _MAX_POINTER_BYTES)
    except OSError:
        return None
    return None if content is None else content.decode().strip()


# Not configurable by environment: a user who starts the server could then omit these rules.
MANAGED_DIR = Path(
    "C:/Program Files/mcp-dispatch" if sys.platform == "win32" else "/etc/mcp-dispatch"
)


class LayerKind(Enum):
    """Where a file comes from, in order of precedence, highest first."""

    MANAGED = "managed"
    FLAG = "flag"
    LOCAL = "local"
    OWN = "own"
    CLAUDE_OWN = "claude-own"
    PROJECT = "project"
    USER = "user"
    CLAUDE_LOCAL = "claude-local"
    CLAUDE_PROJECT = "claude-project"
    CLAUDE_USER = "claude-user"


_PRECEDENCE = {kind: depth for depth, kind in enumerate(LayerKind)}
_WORKSPACE_KINDS = frozenset(
    {
        *(LayerKind.LOCAL, LayerKind.PROJECT),
        *(LayerKind.CLAUDE_LOCAL, LayerKind.CLAUDE_PROJECT),
    }
)


def is_workspace_kind(kind: LayerKind) -> bool:
    return kind in _WORKSPACE_KINDS


@dataclass(frozen=True, slots=True)
class Layer:
    """One settings file. `anchor` is where its path rules `/p` start, if not at its folder.

    With `servers_only`, only `mcpServers` of the object at `object_path` is read. With
    `is_state_file`, another program also keeps its state in the file, so it may be large.
    """

    kind: LayerKind
    path: Path
    anchor: Path | None = None
    servers_only: bool = False
    object_path: tuple[str, ...] = ()
    is_state_file: bool = False

    @property
    def is_workspace_layer(self) -> bool:
        """Whether the file comes with the workspace, so that its entries need trust."""
        return is_workspace_kind(self.kind)

    @property
    def rule_anchor(self) -> Path:
        if self.anchor is not None:
            return self.anchor
        return self.path.parent.parent if self.is_workspace_layer else self.path.parent


@dataclass(frozen=True, slots=True)
class SettingsSources:
    """Where settings are read from. `claude_dir` is Claude Code's own directory, and
    `claude_state_file` the file with the servers of its user; None if they are not requested."""

    config_dir: Path
    flags: tuple[Path, ...] = ()
    claude_dir: Path | None = None
    managed_dir: Path = MANAGED_DIR
    claude_state_file: Path | None = None


def build_sources(
    environ: Mapping[str, str],
    flags: Sequence[Path] = (),
    *,
    include_claude: bool = False,
    managed_dir: Path = MANAGED_DIR,
) -> SettingsSources:
    """Return the sources for a process with this environment and these `--settings` files."""
    return SettingsSources(
        config_dir=find_user_config_dir(environ),
        flags=tuple(_to_absolute(path.expanduser()) for path in flags),
        claude_dir=_to_absolute(find_claude_config_dir(environ)) if include_claude else None,
        managed_dir=managed_dir,
        claude_state_file=_to_absolute(find_claude_state_file(environ)) if include_claude else None,
    )


def find_user_config_dir(environ: Mapping[str, str]) -> Path:
    """Return the absolute path of the directory with the user's settings."""
    named = environ.get("MCP_DISPATCH_CONFIG_DIR")
    place = named or platform_config_dir("mcp-dispatch", appauthor=False)
    return _to_absolute(Path(place))


def find_claude_config_dir(environ: Mapping[str, str]) -> Path:
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path.home() / ".claude"


def find_claude_state_file(environ: Mapping[str, str]) -> Path:
    """Return `~/.claude.json`, to which `claude mcp add` writes servers for a user or a project."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(named) if named else Path.home()) / ".claude.json"


def derive_workspace_file_name(root: Path) -> str:
    """Return the name of our files about a workspace, derived from its real path."""
    return f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"


def locate_own_file(config_dir: Path, root: Path) -> Path:
    """Return the path of the user's own settings for one workspace."""
    return config_dir / "workspaces" / derive_workspace_file_name(root)


def _to_absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  (Path.resolve follows links)


def list_layers(sources: SettingsSources, root: Path | None) -> list[Layer]:
    """Return the layers for the workspace at the real path `root`, including missing files."""
    return [*_list_global_layers(sources), *(_list_workspace_layers(sources, root) if root else ())]


def sort_layers(layers: Sequence[Layer]) -> list[Layer]:
    """Sort the highest first. Of two files of one kind, the later one is higher."""
    later_first = [*reversed(layers)]
    return sorted(later_first, key=lambda layer: _PRECEDENCE[layer.kind])


def _list_global_layers(sources: SettingsSources) -> Iterator[Layer]:
    for path in list_managed_files(sources.managed_dir):
        yield Layer(LayerKind.MANAGED, path)
    for path in sources.flags:
        yield Layer(LayerKind.FLAG, path)
    yield Layer(LayerKind.USER, sources.config_dir / "mcp.json", servers_only=True)
    yield Layer(LayerKind.USER, sources.config_dir / "settings.json")
    if sources.claude_dir is not None:
        theirs = sources.claude_dir
        yield Layer(LayerKind.CLAUDE_USER, theirs / "settings.json", anchor=theirs)
    if sources.claude_state_file is not None:
        yield _build_servers_layer(sources.claude_state_file, LayerKind.CLAUDE_USER)


def _list_workspace_layers(sources: SettingsSources, root: Path) -> Iterator[Layer]:
    ours = root / ".mcp-dispatch"
    yield Layer(LayerKind.LOCAL, ours / "settings.local.json")
    yield Layer(LayerKind.OWN, locate_own_file(sources.config_dir, root), anchor=root)
    yield Layer(LayerKind.PROJECT, root / ".mcp.json", anchor=root, servers_only=True)
    yield Layer(LayerKind.PROJECT, ours / "settings.json")
    if sources.claude_state_file is not None:
        # Written by the user for this workspace, so it is above the files of the repository.
        inside = ("projects", str(root))
        yield _build_servers_layer(sources.claude_state_file, LayerKind.CLAUDE_OWN, inside)
    # In the home directory these are the user's files, which are listed already.
    if sources.claude_dir is not None and sources.claude_dir != root / ".claude":
        yield from _list_claude_layers(root)


def _build_servers_layer(
    state_file: Path, kind: LayerKind, object_path: tuple[str, ...] = ()
) -> Layer:
    return Layer(
        kind,
        state_file,
        anchor=state_file.parent,
        servers_only=True,
        object_path=object_path,
        is_state_file=True,
    )


def _list_claude_layers(root: Path) -> Iterator[Layer]:
    yield Layer(LayerKind.CLAUDE_PROJECT, root / ".claude" / "settings.json")
    # Claude Code reads the local file at the repository's root, and an old copy where it started.
    for place in dict.fromkeys((root, find_repository_root(root) or root)):
        yield Layer(LayerKind.CLAUDE_LOCAL, place / ".claude" / "settings.local.json")


def list_managed_files(folder: Path) -> list[Path]:
    """`settings.json`, then `settings.d/*.json` by name; a later one stands higher.

    Raises `ConfigError` where the folder of parts cannot be listed: rules may be in it.
    """
    parts = folder / "settings.d"
    try:
        names = sorted(entry.name for entry in parts.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        raise ConfigError(str(parts), "", f"cannot be listed: {error.strerror}") from error
    chosen = [name for name in names if name.endswith(".json") and not name.startswith(".")]
    return [folder / "settings.json", *(parts / name for name in chosen)]
