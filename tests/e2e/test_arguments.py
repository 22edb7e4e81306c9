"""Rules, hooks and upstreams get the same arguments, parsed once."""

import json
import sys
from pathlib import Path

import anyio

from tests.support.client import Installation, extract_raw_text, start_raw_server
from tests.support.upstreams.support import RAW, read_received

ODD = rb'"big":9007199254740993,"real":1.0,"zero":-0.0,"text":"\u00e9\ud83d\ude00","z":1,"a":2'


def call(id: int, arguments: bytes) -> bytes:
    params = b'{"name":"raw__echo","arguments":{' + arguments + b"}}"
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}' % (id, params)


async def test_rules_hooks_and_the_server_see_the_same_arguments(installed: Installation) -> None:
    log = installed.folder / "log"
    told: Path = installed.folder / "told"
    installed.add_rules(allow=["mcp__raw"], deny=["mcp__raw__echo(d:1)", "mcp__raw__echo(big:7)"])
    installed.add_upstream("raw", sys.executable, RAW, "--log", str(log))
    hook = {"type": "command", "command": f"cat >> '{told}'; echo >> '{told}'"}
    installed.add_settings(
        {"hooks": {"PreToolUse": [{"matcher": "mcp__raw__.*", "hooks": [hook]}]}}
    )

    async with start_raw_server(installed) as server:
        await server.handshake()
        with anyio.fail_after(60):
            # Of a key that comes twice the last one stands, for all of them.
            await server.send(call(1, ODD + b',"d":1,"d":2'))
            await server.answer(1)
            await server.send(call(2, b'"d":2,"d":1'))
            denied = extract_raw_text(await server.answer(2))
            await server.send(call(3, b'"big":9007199254740993,"big":7'))
            changed = extract_raw_text(await server.answer(3))

    heard = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines() if line]
    [sent] = read_received(log, "tools/call")
    expected = json.loads(b"{" + ODD + b',"d":2}')
    # Compared as text: 1, 1.0 and True are equal in Python, 0.0 and -0.0 too.
    assert repr(heard[0]["tool_input"]) == repr(sent["arguments"]) == repr(expected)
    assert "(mcp__raw__echo(d:1) in " in denied
    assert "(mcp__raw__echo(big:7) in " in changed
