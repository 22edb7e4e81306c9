"""Finds the files that hook commands name: writing one of them changes what the hook decides."""

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from mcp_dispatch.model.json import Json
from mcp_dispatch.settings.parse import RawSection

_PROJECT_VARIABLE = re.compile(r"\$(?:CLAUDE_PROJECT_DIR\b|\{CLAUDE_PROJECT_DIR\})")
_HOME_VARIABLE = re.compile(r"\$(?:HOME\b|\{HOME\})")

# Interpreters and other system programs, which the package manager owns.
_SYSTEM_DIRECTORIES = tuple(
    Path(name)
    for name in (
        *("/bin", "/sbin", "/lib", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/libexec"),
        *("/usr/local/bin", "/opt/homebrew/bin", "/nix/store", "/run/current-system", "/dev"),
    )
)


def find_hook_scripts(hooks: Iterable[RawSection], root: Path | None) -> tuple[Path, ...]:
    """Return each word of a hook command that is a path, as an absolute path that may not exist.

    Relative paths start at the workspace, where hooks run.
    """
    found: dict[Path, None] = {}
    for kept in hooks:
        for word in _iter_words(kept.value):
            path = _resolve_script_path(word, root)
            if path is not None:
                found[path] = None
    return tuple(found)


def _iter_words(value: Json) -> Iterator[str]:
    """The words of every `command` and `args` in a `hooks` object, whatever its shape."""
    if isinstance(value, list):
        for inner in value:
            yield from _iter_words(inner)
    elif isinstance(value, dict):
        command, args = value.get("command"), value.get("args")
        if isinstance(command, str):
            yield from _split_command(command)
        if isinstance(args, list):
            yield from (each for each in args if isinstance(each, str))
        for inner in value.values():
            yield from _iter_words(inner)


def _split_command(command: str) -> list[str]:
    # Variables are expanded even where a shell would not: protecting one file too many is safe.
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return [*lexer]
    except ValueError:
        return command.replace('"', " ").replace("'", " ").split()


def _resolve_script_path(word: str, root: Path | None) -> Path | None:
    text = word.rpartition("=")[2] if word.startswith("-") else word
    text = _PROJECT_VARIABLE.sub(lambda _: str(root or "."), text)
    text = _HOME_VARIABLE.sub(lambda _: "~", text)
    if not text or "\0" in text or text.startswith("-"):
        return None
    try:
        path = Path(text).expanduser()
        path = path if root is None else root / path
        named = path.is_absolute() and ("/" in text or path.is_file())
    except (RuntimeError, OSError, ValueError):
        return None
    if not named or any(path.is_relative_to(place) for place in _SYSTEM_DIRECTORIES):
        return None
    return path
