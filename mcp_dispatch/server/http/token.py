"""The bearer token: from a private file, the environment, or made once and kept in the state."""

import hmac
import os
import re
import secrets
import shlex
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.errors import StartError

VARIABLE = "MCP_DISPATCH_TOKEN"
FILE_NAME = "http-token"
SHORTEST = 16
_LONGEST = 4096
_MADE_OF_BYTES = 32
_OTHERS = 0o077
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Token:
    """The secret, and the file where whoever sets up a client finds it; None for the variable."""

    secret: str
    file: Path | None

    def matches(self, presented: str) -> bool:
        """Takes the same time wherever the two differ."""
        theirs = presented.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(self.secret.encode(), theirs)

    def __repr__(self) -> str:
        return f"Token(file={self.file!r})"


def find_token(file: Path | None, environ: Mapping[str, str], state: Path) -> Token:
    """The file that was named, else the variable, else the one kept in `state`.

    Raises `StartError` where the token is too short, or a file can be read by others.
    """
    if file is not None:
        return _from_file(file)
    named = environ.get(VARIABLE)
    if named is not None:
        return Token(_usable(named, VARIABLE), None)
    kept = state / FILE_NAME
    if not kept.exists():
        _make(kept)
    return _from_file(kept)


def _from_file(path: Path) -> Token:
    try:
        text = _read_private(path)
    except OSError as problem:
        raise _bad(path, problem.strerror or str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise _bad(path, "it is not text") from problem
    return Token(_usable(text, str(path)), path.absolute())


def _read_private(path: Path) -> str:
    """Checks the very file that is read: by name, another could take its place in between."""
    # Opening a FIFO must not wait for somebody to write into it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        problem = _exposure(os.fstat(descriptor), path)
        if problem is not None:
            raise _bad(path, problem)
        return os.read(descriptor, _LONGEST + 2).decode()
    finally:
        os.close(descriptor)


def _exposure(status: os.stat_result, path: Path) -> str | None:
    """Why this is no file for a secret; None where it is."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if sys.platform == "win32":
        return None
    if mode & _OTHERS:
        command = f"chmod 600 {shlex.quote(str(path))}"
        return f"others can open it (mode {mode:04o}); make it private with: {command}"
    return None if status.st_uid in (os.geteuid(), 0) else "it belongs to another user"


def _usable(text: str, where: str) -> str:
    secret = text.strip()
    if len(secret) < SHORTEST:
        advice = f"expected at least {SHORTEST} characters, got {len(secret)}"
        raise StartError(f"the token in {where} is too short: {advice}")
    if len(secret) > _LONGEST or not _VISIBLE.fullmatch(secret):
        shape = f"one line of at most {_LONGEST} ASCII characters without spaces"
        raise StartError(f"the token in {where} must be {shape}")
    return secret


def _make(path: Path) -> None:
    """A whole file or none; of two servers that start at once, one makes it and both use it."""
    draft = path.with_name(f".{FILE_NAME}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, f"{secrets.token_urlsafe(_MADE_OF_BYTES)}\n".encode())
            os.close(descriptor)
            with suppress(FileExistsError):
                path.hardlink_to(draft)
        finally:
            draft.unlink()
    except OSError as problem:
        raise _bad(path, problem.strerror or str(problem)) from problem


def _bad(path: Path, reason: str) -> StartError:
    return StartError(f"cannot use the token file {str(path)!r}: {reason}")
