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

TOKEN_VARIABLE = "MCP_DISPATCH_TOKEN"
TOKEN_FILE_NAME = "http-token"
MIN_TOKEN_CHARS = 16
_MAX_TOKEN_CHARS = 4096
_GENERATED_BYTES = 32
_NON_OWNER_MODE = 0o077
_TOKEN_PATTERN = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """The secret, and the file where whoever sets up a client finds it; None for the variable."""

    secret: str
    file: Path | None

    def matches(self, presented: str) -> bool:
        """Takes the same time wherever the two differ."""
        theirs = presented.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(self.secret.encode(), theirs)

    def __repr__(self) -> str:
        return f"Token(file={self.file!r})"


def find_token(file: Path | None, environ: Mapping[str, str], state_directory: Path) -> BearerToken:
    """The file that was named, else the variable, else the one kept in `state`.

    Raises `StartError` where the token is too short, or a file can be read by others.
    """
    if file is not None:
        return _load_file(file)
    named = environ.get(TOKEN_VARIABLE)
    if named is not None:
        return BearerToken(_validate_secret(named, TOKEN_VARIABLE), None)
    kept = state_directory / TOKEN_FILE_NAME
    if not kept.exists():
        _generate_file(kept)
    return _load_file(kept)


def _load_file(path: Path) -> BearerToken:
    try:
        text = _read_private(path)
    except OSError as problem:
        raise _build_file_error(path, problem.strerror or str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise _build_file_error(path, "it is not text") from problem
    return BearerToken(_validate_secret(text, str(path)), path.absolute())


def _read_private(path: Path) -> str:
    """Checks the very file that is read: by name, another could take its place in between."""
    # Opening a FIFO must not wait for somebody to write into it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        problem = _find_exposure(os.fstat(descriptor), path)
        if problem is not None:
            raise _build_file_error(path, problem)
        return os.read(descriptor, _MAX_TOKEN_CHARS + 2).decode()
    finally:
        os.close(descriptor)


def _find_exposure(status: os.stat_result, path: Path) -> str | None:
    """Why this is no file for a secret; None where it is."""
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if sys.platform == "win32":
        return None
    if mode & _NON_OWNER_MODE:
        command = f"chmod 600 {shlex.quote(str(path))}"
        return f"others can open it (mode {mode:04o}); make it private with: {command}"
    return None if status.st_uid in (os.geteuid(), 0) else "it belongs to another user"


def _validate_secret(text: str, source: str) -> str:
    secret = text.strip()
    if len(secret) < MIN_TOKEN_CHARS:
        advice = f"expected at least {MIN_TOKEN_CHARS} characters, got {len(secret)}"
        raise StartError(f"the token in {source} is too short: {advice}")
    if len(secret) > _MAX_TOKEN_CHARS or not _TOKEN_PATTERN.fullmatch(secret):
        shape = f"one line of at most {_MAX_TOKEN_CHARS} ASCII characters without spaces"
        raise StartError(f"the token in {source} must be {shape}")
    return secret


def _generate_file(path: Path) -> None:
    """A whole file or none; of two servers that start at once, one makes it and both use it."""
    draft = path.with_name(f".{TOKEN_FILE_NAME}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, f"{secrets.token_urlsafe(_GENERATED_BYTES)}\n".encode())
            os.close(descriptor)
            with suppress(FileExistsError):
                path.hardlink_to(draft)
        finally:
            draft.unlink()
    except OSError as problem:
        raise _build_file_error(path, problem.strerror or str(problem)) from problem


def _build_file_error(path: Path, reason: str) -> StartError:
    return StartError(f"cannot use the token file {str(path)!r}: {reason}")
