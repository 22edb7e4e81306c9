"""Opening and replacing files so that no link or swap leads anywhere but the path that was judged.

Every path here is a real path: it is walked one directory at a time without following a link,
so a component that became a link since is an error instead of a way out.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_dispatch.model.errors import MCPDispatchError
from mcp_dispatch.model.tools import FileSeen

# O_PATH needs no read permission on the directory; where it is missing, reading is the next best.
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: a FIFO swapped in after the check must not hold us.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Files here look regular, and may be endless, block, or tell of our own process.
_KERNEL = (Path("/proc"), Path("/sys"))

LOAD_LIMIT = 32 * 1024 * 1024
"""Bytes of a file that is held in memory whole, to be changed."""


class CannotUse(MCPDispatchError):
    """A file cannot be read or written; the message tells the model why and what next."""


class TooLarge(MCPDispatchError):
    """A file has more bytes than may be held in memory."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file read whole."""

    content: bytes
    status: os.stat_result

    @property
    def digest(self) -> str:
        return digest_of(self.content)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def seen_as(status: os.stat_result, digest: str, *, partial: bool = False) -> FileSeen:
    return FileSeen(status.st_mtime_ns, status.st_size, digest, partial)


@contextmanager
def opened(real: Path) -> Generator[int, None, None]:
    """A descriptor of the regular file `real`, for reading. Raises `CannotUse`."""
    _refuse_kernel_files(real)
    with _explained(real), _parent(real) as directory:
        _refuse_unless_regular(real, os.lstat(real.name, dir_fd=directory))
        descriptor = os.open(real.name, _READ, dir_fd=directory)
    try:
        with _explained(real):
            _refuse_unless_regular(real, os.fstat(descriptor))
            yield descriptor
    finally:
        os.close(descriptor)


def exists(real: Path) -> bool:
    """Whether there is a regular file at `real`. Raises `CannotUse` for anything else there."""
    _refuse_kernel_files(real)
    with _explained(real):
        try:
            with _parent(real) as directory:
                status = os.lstat(real.name, dir_fd=directory)
        except FileNotFoundError:
            return False
        _refuse_unless_regular(real, status)
        return True


def load(real: Path) -> Loaded:
    """The whole of `real`, which is small enough to be held in memory."""
    with opened(real) as descriptor:
        try:
            return load_from(descriptor, LOAD_LIMIT)
        except TooLarge as problem:
            raise CannotUse(
                f"{real} has {problem.size} bytes; files over {LOAD_LIMIT} bytes cannot be"
                " changed with this tool. Use Bash instead."
            ) from problem


def load_from(descriptor: int, limit: int) -> Loaded:
    """Everything behind a descriptor that was not read from yet. Raises `TooLarge`."""
    status = os.fstat(descriptor)
    if status.st_size > limit:
        raise TooLarge(status.st_size)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise TooLarge(len(content))
    return Loaded(content, status)


def store(real: Path, content: bytes, before: os.stat_result | None) -> FileSeen:
    """Puts `content` at `real` in one step: a reader sees the old file or the new, whole.

    `before` is the file as it was loaded, None for a new one: a file that is not that one any
    more is left alone. Missing parents are made. The permission bits of an existing file are
    kept, and its owner where we may; a file with several hard links becomes one of its own, so
    that a link placed in the workspace cannot carry a write to a file outside.
    """
    _refuse_kernel_files(real)
    with _explained(real), _parent(real, create=True) as directory:
        _refuse_if_changed(real, directory, before)
        draft = f".{secrets.token_hex(8)}.mcp-dispatch.tmp"
        descriptor = os.open(draft, _CREATE, _draft_mode(before), dir_fd=directory)
        try:
            _fill(descriptor, content, before)
            _refuse_if_changed(real, directory, before)
            os.rename(draft, real.name, src_dir_fd=directory, dst_dir_fd=directory)
            return seen_as(os.fstat(descriptor), digest_of(content))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)


def _draft_mode(before: os.stat_result | None) -> int:
    # A new file gets its mode from the kernel, which alone knows the umask without changing it.
    return 0o666 if before is None else 0o600


def _fill(descriptor: int, content: bytes, before: os.stat_result | None) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    if before is not None:
        _keep_owner(descriptor, before)
        # Without set-user-id and its kin: the kernel drops them on a write, too.
        os.fchmod(descriptor, before.st_mode & 0o777)
    os.fsync(descriptor)


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    for user, group in ((before.st_uid, -1), (-1, before.st_gid)):
        if user in (-1, now.st_uid) and group in (-1, now.st_gid):
            continue
        with suppress(PermissionError):
            os.fchown(descriptor, user, group)


def _refuse_if_changed(real: Path, directory: int, before: os.stat_result | None) -> None:
    try:
        now = os.lstat(real.name, dir_fd=directory)
    except FileNotFoundError:
        if before is None:
            return
        raise
    _refuse_unless_regular(real, now)
    # A rename asks only the directory; the file's own permission is ours to ask.
    if not os.access(real.name, os.W_OK, dir_fd=directory):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(real))
    if before is None or _identity(now) != _identity(before):
        raise CannotUse(f"{real} was changed by someone else just now. Read it again.")


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def _parent(real: Path, *, create: bool = False) -> Generator[int, None, None]:
    """A descriptor of the directory `real` lies in, reached without following a link."""
    descriptor = os.open(real.anchor, _DIRECTORY)
    try:
        for part in real.parts[1:-1]:
            below = _descend(descriptor, part, create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _descend(directory: int, part: str, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=directory)
    return os.open(part, _DIRECTORY, dir_fd=directory)


def _refuse_kernel_files(real: Path) -> None:
    if any(real.is_relative_to(place) for place in _KERNEL):
        raise CannotUse(f"{real} belongs to the kernel and is not an ordinary file. Use Bash.")


def _refuse_unless_regular(real: Path, status: os.stat_result) -> None:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
    if kind:
        raise CannotUse(f"{real} is {kind}; only regular files can be read or written.")


_KINDS = {
    stat.S_IFREG: "",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link that appeared just now",
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@contextmanager
def _explained(real: Path) -> Generator[None, None, None]:
    """Turns the system's errors into words for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise CannotUse(f"File does not exist: {real}") from error
    except PermissionError as error:
        raise CannotUse(f"{real}: permission denied by the file system.") from error
    except NotADirectoryError as error:
        raise CannotUse(f"{real}: a part of the path is not a directory.") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CannotUse(f"{real}: a symbolic link appeared in the path just now.") from error
        raise CannotUse(f"{real}: {error.strerror}.") from error
