"""Published MCP servers, installed once into `.cache`, for tests with real servers."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CACHE = ROOT / ".cache" / "npm"
PYTHON_CACHE = CACHE.with_name("pip")
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
MEMORY = "@modelcontextprotocol/server-memory@2026.8.31"
GIT = "mcp-server-git"
TIME = "mcp-server-time"
INSTALL_SECONDS = 180


def find_npm_program(package: str, program: str) -> str:
    """The path of `program`, which `package` ("@scope/name@version") brings.

    Skips the test, with the reason, where npm cannot install it.
    """
    folder = install_npm_package(package)
    found = folder / "node_modules" / ".bin" / program
    assert found.exists(), f"{package} brings no program {program}"
    return str(found)


def install_npm_package(*packages: str) -> Path:
    """A folder whose `node_modules` holds the packages."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    name = "+".join(package.removeprefix("@").replace("/", "-") for package in packages)
    folder = CACHE / name

    def install() -> None:
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        options = ["--prefix", str(partial), "--no-fund", "--no-audit"]
        _run(["npm", "install", *options, *packages], packages)
        partial.rename(folder)

    _once(folder, install)
    return folder


def install_pip_package(*packages: str) -> Path:
    """The programs that the packages bring, in an environment of their own."""
    folder = PYTHON_CACHE / "+".join(packages)

    def install() -> None:
        # Made in its place: an environment knows where it is.
        shutil.rmtree(folder, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(folder)], packages)
        python = str(folder / "bin" / "python")
        _run([python, "-m", "pip", "install", "-q", *packages], packages)
        (PYTHON_CACHE / f"{folder.name}.complete").touch()

    _once(PYTHON_CACHE / f"{folder.name}.complete", install)
    return folder / "bin"


def _once(result: Path, install: Callable[[], None]) -> None:
    """Tests run in several processes: one installs, the others wait for it."""
    result.parent.mkdir(parents=True, exist_ok=True)
    with result.with_name(f"{result.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            install()


def _run(command: list[str], packages: tuple[str, ...]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        pytest.skip(f"{', '.join(packages)} could not be installed: {reason}")
