"""The official conformance suite through mcp-dispatch, if npm can fetch it."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / ".ci" / "conformance-chained"
NOT_INSTALLABLE = 77


def test_a_server_behind_us_passes_as_many_checks_as_directly() -> None:
    done = subprocess.run(
        [str(SCRIPT)],
        env={**os.environ, "PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    if done.returncode == NOT_INSTALLABLE:
        pytest.skip(done.stderr.splitlines()[-1])

    assert done.returncode == 0, done.stdout + done.stderr
    counts = [line.split()[-3:] for line in done.stdout.splitlines()[1:]]
    assert len(counts) == 3
    for direct, on_stdio, over_http in counts:
        assert direct == on_stdio == over_http
        assert int(direct.partition("/")[0]) >= 44
