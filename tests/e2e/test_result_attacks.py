"""The attacks on results in data/attack-ideas.json that tests/results does not cover.

A38 and A39: test_serve_results, test_results_replace. A40: test_state. A41: test_results_retention
and the full disk of test_serve_results. A42: test_web_fetch, test_wire_codec, test_results_media.
A43 and A44: test_upstream_connection. A45: test_results_preview. A46: test_serve_structure and
here. A47: test_results_command and here. A48: test_redaction.
"""

import json
import os
import random
import re
import signal
import sys
from hashlib import sha256

import anyio
import pytest
from mcp_types import ResourceLink

from mcp_dispatch.model.json import Json, JsonObject
from tests.support.client import ERAS, Era, Installation, start_raw_server
from tests.support.paths import UPSTREAMS

SCRIPTED = str(UPSTREAMS / "scripted.py")

each_era = pytest.mark.parametrize("era", ERAS)


def scripted(installed: Installation, tools: dict[str, JsonObject]) -> None:
    script = installed.folder / "script.json"
    script.write_text(json.dumps(tools), encoding="utf-8")
    installed.add_rules(allow=["mcp__up", "Bash"])
    installed.add_upstream("up", sys.executable, "-S", "-E", SCRIPTED, str(script))


def tool(result: JsonObject, **definition: Json) -> JsonObject:
    schema: JsonObject = {"type": "object"}
    return {"definition": {"inputSchema": schema, **definition}, "results": {"small": result}}


@each_era
async def test_a_resource_link_of_a_server_is_passed_on_and_never_followed(
    installed: Installation, era: Era
) -> None:
    """A46: nothing of the file that it names is in the answer."""
    secret = installed.write_file("secret.txt", "a secret that nobody asked for")
    link: JsonObject = {"type": "resource_link", "uri": secret.as_uri(), "name": "passwords"}
    scripted(installed, {"linked": tool({"content": [link]})})

    async with installed.open_client(era) as client:
        result = await client.call_tool("up__linked", {})

    (block,) = result.content
    assert isinstance(block, ResourceLink)
    assert str(block.uri) == secret.as_uri()
    assert "nobody asked for" not in result.model_dump_json()


@each_era
async def test_the_name_of_a_server_cannot_forge_a_log_line(
    installed: Installation, era: Era
) -> None:
    """A47: control characters in names and schemas are escaped, one record a line."""
    evil = "x\x1b]52;c;ZXZpbA==\x07\r\nWARNING forged \u202e"
    scripted(
        installed,
        {
            evil: tool({"content": []}, outputSchema={"type": evil}),
            "pattern": tool(
                {"content": []},
                outputSchema={"type": "object", "properties": {"a": {"pattern": "(" + evil}}},
            ),
            "broken": {"definition": {"inputSchema": {"type": evil}}, "results": {}},
        },
    )

    async with installed.open_client(era) as client:
        await client.list_tools()

    logs = [installed.folder / "stderr", *(installed.state / "logs").glob("*")]
    said = "".join(path.read_text(encoding="utf-8") for path in logs if path.is_file())
    assert "outputSchema" in said
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(said)
    assert re.search(r"^WARNING forged", said, re.MULTILINE) is None


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("seed", range(6))
async def test_a_server_killed_at_any_moment_leaves_no_truncated_file_under_a_final_name(
    installed: Installation, seed: int
) -> None:
    big: dict[str, JsonObject] = {
        f"big{number}": tool({"repeat": [f"{number} of many\n", 400_000]}) for number in range(5)
    }
    scripted(installed, big)
    drawn = random.Random(seed)
    results = installed.state / "results"

    async with start_raw_server(installed) as server:
        await server.handshake()
        await server.call(0, "up__big0")
        with anyio.fail_after(60):
            await server.answer(0)
        for number in range(1, 5):
            await server.call(number, f"up__big{number}")
        await server.call(9, "Bash", command="seq 1 900000")
        # A moment of its own for each seed, somewhere in the writing of what comes next.
        with anyio.move_on_after(drawn.uniform(0.0, 1.5)):
            await server.answer(9)
        os.kill(server.child.pid, signal.SIGKILL)
        await server.child.wait()

    named = [path for path in results.iterdir() if not path.name.startswith(".")]
    assert named
    for path in named:
        assert path.stem == sha256(path.read_bytes()).hexdigest()[:32]
    assert {path.suffix for path in results.iterdir() if path.name.startswith(".")} <= {".partial"}
