"""The steps of the page on results work as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "results.md"


def block(name: str) -> str:
    found = re.search(
        rf"<!-- {name} -->\n```\w*\n(.+?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None, f"docs/results.md has no block {name!r}"
    return found.group(1)


def test_the_example_of_the_page_works(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "settings.json").write_text(block("settings"), encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**kept, "HOME": str(tmp_path), "PATH": path}

    ran = subprocess.run(
        [sys.executable, "-c", block("client")],
        cwd=project,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    listed = subprocess.run(
        ["bash", "-c", block("list")],
        cwd=project,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    first, second, told = ran.stdout.splitlines()
    assert first == "<persisted-output>"
    assert second.startswith("Output too large (575.1KB). Full output saved to: ")
    shown = re.fullmatch(
        r"\[Bytes 0-(\d+) of 588894, in pages of at most 48000; the next page is"
        r" dispatch://results/([0-9a-f]{32})\?offset=\1\]",
        told,
    )
    assert shown is not None, told
    assert shown.group(1) in PAGE.read_text(encoding="utf-8")
    assert shown.group(2) in listed.stdout
