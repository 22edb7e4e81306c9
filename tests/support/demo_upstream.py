"""Commands that start demo upstreams, and settings that defer their tools."""

import sys

from mcp_dispatch.model.json import Json
from mcp_dispatch.wire.codec import encode
from tests.support.client import RawServer
from tests.support.paths import UPSTREAMS

RAW = str(UPSTREAMS / "raw.py")
DEMO = (sys.executable, "-m", "mcp_dispatch.demo.upstream")
ALWAYS = {"dispatch": {"toolSearch": {"mode": "always"}}}


async def listed_bytes(server: RawServer, id: Json) -> bytes:
    await server.send({"jsonrpc": "2.0", "id": id, "method": "tools/list"})
    answer = (await server.answer(id))["result"]
    assert isinstance(answer, dict)
    return encode({"tools": answer["tools"]})
