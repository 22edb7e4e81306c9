"""Many clients at once: every call is answered once, to its own client, in bounded memory."""

import secrets
from collections import Counter

import anyio
import pytest
from mcp import Client

from tests.support.client import ERAS, Era, Installation, extract_text
from tests.support.depth import choose_count
from tests.support.http_server_process import HttpServerProcess, start_http_server

CLIENTS = choose_count(quick=60, deep=200)
ROUNDS = 2
"""Of five calls each."""

PEAK_KILOBYTES = 250_000


class Tally:
    """What came back, by nonce."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()

    async def call(self, client: Client, nonce: str, tool: str, **arguments: str) -> str:
        self.sent[nonce] += 1
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, extract_text(result)
        self.answered[nonce] += 1
        return extract_text(result)


async def one_client(server: HttpServerProcess, era: Era, number: int, tally: Tally) -> None:
    async with server.client(era) as client:
        for round in range(ROUNDS):
            nonces = [f"n{number}-{round}-{secrets.token_hex(8)}" for _ in range(5)]
            name = f"{number}-{round}.txt"
            await tally.call(client, nonces[0], "Write", file_path=name, content=nonces[0])
            read = await tally.call(client, nonces[1], "Read", file_path=name)
            echoed = await tally.call(client, nonces[2], "Bash", command=f"echo {nonces[2]}")
            await tally.call(client, nonces[3], "Write", file_path=name, content=nonces[3])
            again = await tally.call(client, nonces[4], "Read", file_path=name)
            expected = (f"     1\t{nonces[0]}", nonces[2], f"     1\t{nonces[3]}")
            assert (read, echoed, again) == expected


@pytest.mark.parametrize("era", ERAS)
async def test_many_clients_with_ten_calls_each(installed: Installation, era: Era) -> None:
    installed.add_rules(allow=["Edit(./**)", "Bash(echo:*)"])
    tally = Tally()

    async with start_http_server(installed) as server:
        with anyio.fail_after(240):
            async with anyio.create_task_group() as clients:
                for number in range(CLIENTS):
                    clients.start_soon(one_client, server, era, number, tally)
        peak = server.peak_kilobytes()

    assert tally.answered == tally.sent
    assert set(tally.answered.values()) == {1}
    assert len(tally.answered) == CLIENTS * 10
    entries = installed.read_journal()
    assert len(entries) == CLIENTS * 10
    assert {str(entry["outcome"]) for entry in entries} == {"completed"}
    assert len({str(entry["scope"]) for entry in entries}) == (CLIENTS if era == "legacy" else 1)
    assert peak < PEAK_KILOBYTES, f"{peak} kB at the peak"
