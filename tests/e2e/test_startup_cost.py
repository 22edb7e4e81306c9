"""The cost of a start with many upstreams whose tools are cached."""

import sys
from pathlib import Path

import pytest

from benchmarks.startup import measure


@pytest.mark.skipif(sys.platform != "linux", reason="CPU time of a process is read from /proc")
def test_the_first_list_costs_hardly_more_with_twenty_known_upstreams(tmp_path: Path) -> None:
    without, with_them = measure(tmp_path, upstreams=20, rounds=3)

    assert {each.tools for each in with_them} == {without[0].tools + 20 * 4}
    # CPU time, as this machine may be busy with other tests; the least disturbed of each.
    ratio = min(each.cpu for each in with_them) / min(each.cpu for each in without)
    assert ratio < 1.10
