"""The calls of one message without a model: python one_message.py"""

import anyio

import mcp_dispatch

MESSAGE = [
    {"type": "text", "text": "I will look around first."},
    {"type": "tool_use", "id": "toolu_1", "name": "Glob", "input": {"pattern": "*.md"}},
    {"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "pwd"}},
    {"type": "tool_use", "id": "toolu_3", "name": "Nope", "input": {}},
]


async def main():
    async with mcp_dispatch.open(workspace=".") as dispatch:
        async for result in dispatch.run(MESSAGE):
            how = "failed" if result.get("is_error") else "done"
            print(f"{result['tool_use_id']} {how}: {result['content'][0]['text']}")


anyio.run(main)
