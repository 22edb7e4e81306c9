"""Open and replace files without following links, so only the path that rules judged is used.

Every path is a real path. It is opened one directory at a time without following links, so a
component that became a link meanwhile is an error.
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

# O_PATH needs no read permission on the directory; systems without it fall back to O_RDONLY.
_DIRECTORY_FLAGS = (
    os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
)
# O_NONBLOCK: a FIFO that replaced the file after the check must not block.
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Files here look regular, but may be endless, block, or expose our own process.
_KERNEL_DIRECTORIES = (Path("/proc"), Path("/sys"))

MAX_LOAD_BYTES = 32 * 1024 * 1024
"""The largest file that is loaded into memory to be changed."""


class FileError(MCPDispatchError):
    """A file cannot be read or written; the message tells the model why and what to do."""


class FileTooLargeError(MCPDispatchError):
    """A file is too large to be loaded into memory."""

    def __init__(self, size: int) -> None:
        super().__init__(f"{size} bytes")
        self.size = size


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The whole content of a file and its status."""

    content: bytes
    status: os.stat_result

    @property
    def digest(self) -> str:
        return compute_digest(self.content)


def compute_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe_file_state(status: os.stat_result, digest: str, *, partial: bool = False) -> FileSeen:
    return FileSeen(status.st_mtime_ns, status.st_size, digest, partial)


@contextmanager
def open_regular_file(real_path: Path) -> Generator[int, None, None]:
    """Open the regular file `real_path` for reading. Raise `FileError`."""
    _refuse_kernel_files(real_path)
    with _translate_os_errors(real_path), _open_parent(real_path) as directory:
        _refuse_unless_regular(real_path, os.lstat(real_path.name, dir_fd=directory))
        descriptor = os.open(real_path.name, _READ_FLAGS, dir_fd=directory)
    try:
        with _translate_os_errors(real_path):
            _refuse_unless_regular(real_path, os.fstat(descriptor))
            yield descriptor
    finally:
        os.close(descriptor)


def exists(real_path: Path) -> bool:
    """Return whether there is a regular file at `real_path`. Raise `FileError` for anything else."""
    _refuse_kernel_files(real_path)
    with _translate_os_errors(real_path):
        try:
            with _open_parent(real_path) as directory:
                status = os.lstat(real_path.name, dir_fd=directory)
        except FileNotFoundError:
            return False
        _refuse_unless_regular(real_path, status)
        return True


def load(real_path: Path) -> LoadedFile:
    """Load the whole file. Raise `FileError` if it is larger than `MAX_LOAD_BYTES`."""
    with open_regular_file(real_path) as descriptor:
        try:
            return load_from(descriptor, MAX_LOAD_BYTES)
        except FileTooLargeError as problem:
            raise FileError(
                f"{real_path} has {problem.size} bytes; files over {MAX_LOAD_BYTES} bytes cannot be"
                " changed with this tool. Use Bash instead."
            ) from problem


def load_from(descriptor: int, limit: int) -> LoadedFile:
    """Load everything from an unread descriptor. Raise `FileTooLargeError`."""
    status = os.fstat(descriptor)
    if status.st_size > limit:
        raise FileTooLargeError(status.st_size)
    with os.fdopen(os.dup(descriptor), "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise FileTooLargeError(len(content))
    return LoadedFile(content, status)


def store(real_path: Path, content: bytes, expected_status: os.stat_result | None) -> FileSeen:
    """Replace the file atomically: a reader sees the old file or the new file.

    `expected_status` is the status of the loaded file, or None for a new file; a file that has
    changed since is not replaced. Missing parents are created. The permission bits of an
    existing file are kept, and its owner where permitted. A file with several hard links is
    separated from them, so a hard link in the workspace cannot redirect a write outside.
    """
    _refuse_kernel_files(real_path)
    with _translate_os_errors(real_path), _open_parent(real_path, create=True) as directory:
        _refuse_if_changed(real_path, directory, expected_status)
        draft = f".{secrets.token_hex(8)}.mcp-dispatch.tmp"
        descriptor = os.open(
            draft, _CREATE_FLAGS, _choose_draft_mode(expected_status), dir_fd=directory
        )
        try:
            _write_draft(descriptor, content, expected_status)
            _refuse_if_changed(real_path, directory, expected_status)
            os.rename(draft, real_path.name, src_dir_fd=directory, dst_dir_fd=directory)
            return describe_file_state(os.fstat(descriptor), compute_digest(content))
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=directory)
            raise
        finally:
            os.close(descriptor)


def _choose_draft_mode(expected_status: os.stat_result | None) -> int:
    # The kernel applies the umask to a new file; reading the umask would mean changing it.
    return 0o666 if expected_status is None else 0o600


def _write_draft(descriptor: int, content: bytes, expected_status: os.stat_result | None) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    if expected_status is not None:
        _keep_owner(descriptor, expected_status)
        # Without set-user-id and similar bits: the kernel drops them on a write, too.
        os.fchmod(descriptor, expected_status.st_mode & 0o777)
    os.fsync(descriptor)


def _keep_owner(descriptor: int, expected_status: os.stat_result) -> None:
    now = os.fstat(descriptor)
    for user, group in ((expected_status.st_uid, -1), (-1, expected_status.st_gid)):
        if user in (-1, now.st_uid) and group in (-1, now.st_gid):
            continue
        with suppress(PermissionError):
            os.fchown(descriptor, user, group)


def _refuse_if_changed(
    real_path: Path, directory: int, expected_status: os.stat_result | None
) -> None:
    try:
        now = os.lstat(real_path.name, dir_fd=directory)
    except FileNotFoundError:
        if expected_status is None:
            return
        raise
    _refuse_unless_regular(real_path, now)
    # A rename checks the permission of the directory only, not that of the file.
    if not os.access(real_path.name, os.W_OK, dir_fd=directory):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(real_path))
    if expected_status is None or _extract_identity(now) != _extract_identity(expected_status):
        raise FileError(f"{real_path} was changed by someone else just now. Read it again.")


def _extract_identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


@contextmanager
def _open_parent(real_path: Path, *, create: bool = False) -> Generator[int, None, None]:
    """Open the parent directory of `real_path` without following a link."""
    descriptor = os.open(real_path.anchor, _DIRECTORY_FLAGS)
    try:
        for part in real_path.parts[1:-1]:
            below = _open_subdirectory(descriptor, part, create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_subdirectory(directory: int, name: str, create: bool) -> int:
    try:
        return os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=directory)
    return os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)


def _refuse_kernel_files(real_path: Path) -> None:
    if any(real_path.is_relative_to(place) for place in _KERNEL_DIRECTORIES):
        raise FileError(f"{real_path} belongs to the kernel and is not an ordinary file. Use Bash.")


def _refuse_unless_regular(real_path: Path, status: os.stat_result) -> None:
    kind = _FILE_KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
    if kind:
        raise FileError(f"{real_path} is {kind}; only regular files can be read or written.")


_FILE_KINDS = {
    stat.S_IFREG: "",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link that appeared just now",
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@contextmanager
def _translate_os_errors(real_path: Path) -> Generator[None, None, None]:
    """Translate errors of the system into messages for the model."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(f"File does not exist: {real_path}") from error
    except PermissionError as error:
        raise FileError(f"{real_path}: permission denied by the file system.") from error
    except NotADirectoryError as error:
        raise FileError(f"{real_path}: a part of the path is not a directory.") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileError(
                f"{real_path}: a symbolic link appeared in the path just now."
            ) from error
        raise FileError(f"{real_path}: {error.strerror}.") from error
