"""Whether git would run another program in a directory because a configuration names one.

No program is started: the files are read, and an unknown setting counts as unsafe.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAX_CONFIG_BYTES = 1_000_000
"""Larger configuration files are not read."""

MAX_INDEX_BYTES = 50_000_000

_MAX_INCLUDE_DEPTH = 5
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
_HEADER = re.compile(r"\[\s*([A-Za-z0-9.-]+)\s*(?:\"((?:[^\"\\\n]|\\[\"\\])*)\")?\s*\]\s*(.*)")
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")
_HARMLESS_ENVIRONMENT = frozenset(
    {
        *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME"),
        *("GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE", "GIT_TERMINAL_PROMPT", "GIT_EDITOR"),
        *("GIT_SEQUENCE_EDITOR", "GIT_OPTIONAL_LOCKS", "GIT_SSL_CAINFO", "GIT_MERGE_AUTOEDIT"),
    }
)
# Sections from which no read-only command takes a program, whatever the key is.
_HARMLESS_SECTIONS = frozenset(
    {
        *("user", "author", "committer", "branch", "init", "push", "pull", "fetch", "color"),
        *("advice", "gc", "maintenance", "rerere", "rebase", "commit", "stash", "index", "pack"),
        *("status", "column", "http", "https", "url", "lfs", "receive", "transfer", "feature"),
        *(
            "am",
            "apply",
            "checkout",
            "clean",
            "clone",
            "notes",
            "versionsort",
            "safe",
            "help",
            "gui",
        ),
    }
)
_HARMLESS_KEYS: Mapping[str, frozenset[str]] = {
    "core": frozenset(
        {
            *("repositoryformatversion", "filemode", "logallrefupdates", "ignorecase"),
            *("precomposeunicode", "symlinks", "autocrlf", "eol", "safecrlf", "quotepath"),
            *("whitespace", "abbrev", "compression", "untrackedcache", "trustctime", "checkstat"),
            *("preloadindex", "longpaths", "protecthfs", "protectntfs", "fscache", "commentchar"),
            *("sparsecheckout", "sparsecheckoutcone", "multipackindex", "commitgraph"),
            *("bigfilethreshold", "sharedrepository", "excludesfile", "attributesfile"),
        }
    ),
    "remote": frozenset(
        {
            *("url", "fetch", "pushurl", "push", "tagopt", "prune", "prunetags", "mirror"),
            *("skipdefaultupdate", "skipfetchall", "gh-resolved", "followremotehead"),
        }
    ),
    "log": frozenset({"date", "decorate", "abbrevcommit", "follow", "graphcolors", "mailmap"}),
    "diff": frozenset(
        {
            *("algorithm", "renames", "renamelimit", "colormoved", "colormovedws", "context"),
            *("mnemonicprefix", "noprefix", "interhunkcontext", "indentheuristic", "relative"),
            *("statgraphwidth", "suppressblankempty", "wserrorhighlight", "xfuncname", "tool"),
        }
    ),
    "merge": frozenset({"conflictstyle", "ff", "renames", "renamelimit", "tool", "stat", "log"}),
    "blame": frozenset({"date", "coloring", "showemail", "showroot", "blankboundary"}),
    "tag": frozenset({"sort", "gpgsign", "forcesignannotated"}),
    "extensions": frozenset({"worktreeconfig", "objectformat", "refstorage", "noop"}),
}
_FALSE = frozenset({"false", "no", "off", "0"})
_TRUE = frozenset({"true", "yes", "on", "1"})
# The commands that the installation of git-lfs writes into the user's configuration.
_LFS_COMMANDS = frozenset(
    {
        *("git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs filter-process"),
        *("git-lfs smudge --skip -- %f", "git-lfs filter-process --skip", "true"),
    }
)


@dataclass(frozen=True, slots=True)
class GitSetting:
    """One entry; section and key are in lower case."""

    section: str
    subsection: str
    key: str
    value: str


class _UnsafeRepository(Exception):
    """The repository or a configuration has something that is not known to be harmless."""


def is_git_config_safe(directory: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Return whether read-only commands of git in `directory` run no other program."""
    variables = {name for name in environ if name.startswith("GIT_")}
    if not variables <= _HARMLESS_ENVIRONMENT:
        return False
    try:
        repository = _find_repository(directory)
        if repository is not None:
            _check_repository(*repository)
        for file in _list_user_config_files(home, environ):
            _check_user_config(file, home, 0)
    except (_UnsafeRepository, OSError, ValueError):
        return False
    return True


def _find_repository(directory: Path) -> tuple[Path, Path] | None:
    """Return the working tree and git directory of the nearest repository upwards, or None."""
    start = directory.resolve(strict=True)
    for parent in (start, *start.parents):
        marker = parent / ".git"
        if marker.is_symlink():
            raise _UnsafeRepository("a repository is a link")
        if marker.is_dir():
            return parent, marker
        if marker.is_file():
            return parent, _read_gitdir_file(marker)
        if (parent / "HEAD").exists() and (parent / "objects").exists():
            # Git would treat the directory itself as a repository and read its `config`.
            raise _UnsafeRepository("a bare repository")
    return None


def _read_gitdir_file(git_file: Path) -> Path:
    name, _, target = git_file.read_text(encoding="utf-8").strip().partition(": ")
    directory = git_file.parent / target
    if name != "gitdir" or "\n" in target or not directory.is_dir():
        raise _UnsafeRepository("a repository stands elsewhere, and not where its file says")
    return directory


def _check_repository(tree: Path, git_directory: Path) -> None:
    common = git_directory
    common_file = git_directory / "commondir"
    if common_file.exists():
        common = git_directory / common_file.read_text(encoding="utf-8").strip()
    if not (git_directory / "HEAD").is_file() or not (common / "objects").is_dir():
        raise _UnsafeRepository("it is not a whole repository")
    for file in (common / "config", git_directory / "config.worktree", common / "config.worktree"):
        for setting in _read_settings(file):
            _check_setting(setting)
    if (tree / ".gitmodules").exists() or (common / "modules").exists():
        raise _UnsafeRepository("submodules have configurations of their own")
    for directory in {git_directory, common}:
        _check_directory(directory)


def _check_directory(git_directory: Path) -> None:
    """Refuse a hook that runs after the index was refreshed, and repositories inside this one."""
    if (git_directory / "hooks" / "post-index-change").exists():
        raise _UnsafeRepository("a hook runs when the index changes")
    indexes = [git_directory / "index", *git_directory.glob("sharedindex.*")]
    if any(file.exists() and _may_contain_submodule(file) for file in indexes):
        raise _UnsafeRepository("a repository inside it has a configuration of its own")


def _may_contain_submodule(index: Path) -> bool:
    """Search the index for the mode of a submodule entry; other bytes may match by chance."""
    return index.stat().st_size > MAX_INDEX_BYTES or _SUBMODULE_MODE in index.read_bytes()


def _check_setting(setting: GitSetting) -> None:
    """Check a setting of the repository itself, whose author is not trusted."""
    section, key = setting.section, setting.key
    if section in _HARMLESS_SECTIONS:
        return
    switched_off = (section, key) in (("core", "bare"), ("core", "fsmonitor"))
    if switched_off and setting.value.lower() in _FALSE:
        return
    if key not in _HARMLESS_KEYS.get(section, frozenset()):
        raise _UnsafeRepository(f"{section}.{key}")


def _list_user_config_files(home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    configured = environ.get("XDG_CONFIG_HOME")
    return (
        Path("/etc/gitconfig"),
        Path("/usr/local/etc/gitconfig"),
        Path("/opt/homebrew/etc/gitconfig"),
        (Path(configured) if configured else home / ".config") / "git" / "config",
        home / ".gitconfig",
    )


def _check_user_config(file: Path, home: Path, depth: int) -> None:
    """Check the user's own settings: those that always run, or that a repository can trigger."""
    if depth > _MAX_INCLUDE_DEPTH:
        raise _UnsafeRepository("configurations include each other")
    for setting in _read_settings(file):
        if setting.section in ("include", "includeif") and setting.key == "path":
            _check_user_config(_resolve_include(setting.value, file, home), home, depth + 1)
        elif _can_run_program(setting):
            raise _UnsafeRepository(f"{setting.section}.{setting.key}")


def _resolve_include(path: str, file: Path, home: Path) -> Path:
    if path.startswith("~/"):
        return home / path[2:]
    if path.startswith(("~", "%")):
        raise _UnsafeRepository("a configuration includes a file that is not known")
    return file.parent / path


def _can_run_program(setting: GitSetting) -> bool:
    """Return whether git may run a program because of the setting.

    Aliases cannot replace git's own commands, and a pager needs a terminal: both are harmless.
    """
    match setting.section, setting.key:
        case "core", "fsmonitor":
            return setting.value.lower() not in _FALSE | _TRUE
        case "core", "hookspath" | "worktree" | "alternaterefscommand":
            return True
        case "diff", "external" | "command" | "textconv":
            return True
        case "filter", "clean" | "smudge" | "process" | "required":
            return setting.subsection != "lfs" or setting.value not in _LFS_COMMANDS
        case "log", "showsignature":
            return setting.value.lower() not in _FALSE
        case "hook" | "filter", _:
            return True
        case _:
            return False


def _read_settings(file: Path) -> Iterator[GitSetting]:
    """Yield the settings of a file, if it exists. Raise for a line that is not plain."""
    if not file.exists():
        return
    if not file.is_file() or file.stat().st_size > MAX_CONFIG_BYTES:
        raise _UnsafeRepository("a configuration is no file, or too large")
    section, subsection = "", ""
    for line in file.read_text(encoding="utf-8").split("\n"):
        rest = line.strip(" \t\r")
        if header := _HEADER.fullmatch(rest):
            section, subsection = _split_section(header.group(1), header.group(2))
            rest = header.group(3)
        if not rest or rest[0] in "#;":
            continue
        yield _parse_setting(rest, section, subsection)


def _split_section(name: str, subsection: str | None) -> tuple[str, str]:
    """Return section and subsection; `[diff.x]` is an old form of `[diff "x"]`."""
    section, _, rest = name.lower().partition(".")
    return section, rest if subsection is None else subsection


def _parse_setting(line: str, section: str, subsection: str) -> GitSetting:
    entry = _ENTRY.fullmatch(line)
    if entry is None or not section or not line.isprintable() or line.endswith("\\"):
        raise _UnsafeRepository("a line of a configuration is not plain")
    value = entry.group(2)
    text = "true" if value is None else value.partition(" #")[0].partition(" ;")[0].strip(' "')
    return GitSetting(section, subsection, entry.group(1).lower(), text)
