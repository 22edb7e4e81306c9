"""Single checks of `mcp-dispatch doctor`."""

import sys

from tests.support.client import Installation


def test_a_server_that_starts_the_demo_by_its_former_name_is_reported(
    installed: Installation,
) -> None:
    installed.add_upstream("demo", sys.executable, "-m", "mcp_dispatch.demo_upstream")

    done = installed.run("doctor")

    shown = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert (
        "mcpServers.demo.args: mcp_dispatch.demo_upstream is now mcp_dispatch.demo.upstream; "
        "change the entry"
    ) in shown
