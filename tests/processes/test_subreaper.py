"""The subreaper adopts orphaned processes and reaps them."""

import subprocess
import sys

import pytest

SCRIPT = """
import os, subprocess, time
from pathlib import Path
from mcp_dispatch.processes.subreaper import enable_subreaper, reap_orphans

assert enable_subreaper()
started = subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=True)
other = subprocess.Popen(["sh", "-c", "exit 8"])
script = "(sleep 0.2 & echo $!); exit 9"
parent = subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE)
orphan = int(parent.stdout.readline())
assert parent.wait() == 9
stat = Path(f"/proc/{orphan}/stat")
print("adopted" if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid() else "lost")
deadline = time.monotonic() + 30
while stat.exists() and time.monotonic() < deadline:
    reap_orphans()
print("gone" if not stat.exists() else "left")
print(started.wait(), other.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt")
def test_an_orphan_is_adopted_and_reaped_and_other_children_keep_their_exit_codes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == ["adopted", "gone", "7 8"]
