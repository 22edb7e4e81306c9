"""The steps of the page on HTTP work as written."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.client import BUILT_INS
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "http.md"


def block(name: str, port: int) -> str:
    """The code behind the comment `<!-- name -->`, on a port that is free here."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.+?)\n```", text, re.DOTALL)
    assert found is not None, f"docs/http.md has no block {name!r}"
    return found.group(1).replace("8123", str(port))


def find_free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def environ(home: Path) -> dict[str, str]:
    """A new user's, with our command on the path."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path}


@pytest.fixture(scope="module")
def port(home: Path, environ: dict[str, str]) -> Generator[int]:
    """Of the server as the page starts it."""
    chosen, workspace = find_free_port(), home / "project"
    workspace.mkdir()
    with subprocess.Popen(
        ["bash", "-c", f"exec {block('serve', chosen)}"],
        cwd=workspace,
        env=environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        try:
            assert child.stderr is not None
            said = [child.stderr.readline(), child.stderr.readline()]
            shown = "".join(said).replace(str(home), "/home/you").replace(str(chosen), "8123")
            assert shown in PAGE.read_text(encoding="utf-8")
            yield chosen
        finally:
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 128 + signal.SIGTERM


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the page shows Linux paths")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl_lists_the_tools(port: int, environ: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", block("curl", port)],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    listed = json.loads(done.stdout)["result"]["tools"]
    assert [tool["name"] for tool in listed] == [*BUILT_INS]


def test_the_program_lists_the_tools(port: int, environ: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("client", port)],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert done.stdout == f"{list(BUILT_INS)}\n"
