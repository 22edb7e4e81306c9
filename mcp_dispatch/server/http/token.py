"""The bearer token: from a private file, the environment, or generated in the state directory."""

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
    """The secret and the file that contains it; `file` is None for the environment variable."""

    secret: str
    file: Path | None

    def matches(self, presented: str) -> bool:
        """Compare in constant time."""
        theirs = presented.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(self.secret.encode(), theirs)

    def __repr__(self) -> str:
        return f"Token(file={self.file!r})"


def find_token(file: Path | None, environ: Mapping[str, str], state_directory: Path) -> BearerToken:
    """Return the token of `file`, else of the variable, else of the file in `state_directory`.

    The file in `state_directory` is generated if it is missing. Raises `StartError` if the token
    is too short or other users can read its file.
    """
    if file is not None:
        return _load_file(file)
    variable = environ.get(TOKEN_VARIABLE)
    if variable is not None:
        return BearerToken(_validate_secret(variable, TOKEN_VARIABLE), None)
    generated = state_directory / TOKEN_FILE_NAME
    if not generated.exists():
        _generate_file(generated)
    return _load_file(generated)


def _load_file(path: Path) -> BearerToken:
    try:
        text = _read_private(path)
    except OSError as problem:
        raise _build_file_error(path, problem.strerror or str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise _build_file_error(path, "it is not text") from problem
    return BearerToken(_validate_secret(text, str(path)), path.absolute())


def _read_private(path: Path) -> str:
    """Read the file and check its descriptor: another file could replace its name in between."""
    # Opening a FIFO must not block until a process writes into it.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        problem = _find_exposure(os.fstat(descriptor), path)
        if problem is not None:
            raise _build_file_error(path, problem)
        return os.read(descriptor, _MAX_TOKEN_CHARS + 2).decode()
    finally:
        os.close(descriptor)


def _find_exposure(status: os.stat_result, path: Path) -> str | None:
    """Return why the file is unsafe for a secret, or None."""
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
    """Create the file atomically: of two servers that start at once, both use the same token."""
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
