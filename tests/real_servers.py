"""Published MCP servers from npm, installed once into `.cache`, for tests that want the real thing."""

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".cache" / "npm"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
MEMORY = "@modelcontextprotocol/server-memory@2026.8.31"
INSTALL_SECONDS = 180


def npm_program(package: str, program: str) -> str:
    """The path of `program`, which `package` ("@scope/name@version") brings.

    Skips the test, with the reason, where npm cannot install it.
    """
    folder = npm_folder(package)
    found = folder / "node_modules" / ".bin" / program
    assert found.exists(), f"{package} brings no program {program}"
    return str(found)


def npm_folder(*packages: str) -> Path:
    """A folder whose `node_modules` holds the packages."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    name = "+".join(package.removeprefix("@").replace("/", "-") for package in packages)
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes: one installs, the others wait for it.
    with (CACHE / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(folder, packages)
    return folder


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    done = subprocess.run(
        ["npm", "install", "--prefix", str(partial), "--no-fund", "--no-audit", *packages],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
        pytest.skip(f"npm could not install {', '.join(packages)}: {reason}")
    partial.rename(folder)
