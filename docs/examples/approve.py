"""A person says yes or no on the terminal: python approve.py "touch made" """

import sys

import anyio

import mcp_dispatch
from mcp_dispatch import Declined, escape_control_characters


async def ask(question):
    shown = escape_control_characters(f"{question.tool} {question.arguments}")
    print(
        f"Allow {shown}?\nAsked because: {escape_control_characters(question.decision.by.reason)}"
    )
    answer = await anyio.to_thread.run_sync(input, "y, or why not: ", abandon_on_cancel=True)
    return True if answer == "y" else Declined(f"the user refused: {answer}")


async def main(command):
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}}
    async with mcp_dispatch.open(workspace=".", ask=ask) as dispatch:
        async for result in dispatch.run([call]):
            print(result["content"][0]["text"])


anyio.run(main, sys.argv[1])
