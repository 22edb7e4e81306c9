import json
import os
import sys

import anyio
import httpx2

import mcp_dispatch

URL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com") + "/v1/messages"
HEADERS = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
REQUEST = {"model": os.environ["MODEL"], "max_tokens": 8192, "stream": True}


async def blocks_of(http, request):
    async with http.stream("POST", URL, headers=HEADERS, json=request, timeout=600) as answer:
        async for line in answer.raise_for_status().aiter_lines():
            event = json.loads(line[6:]) if line.startswith("data: ") else {}
            match event.get("type"):
                case "content_block_start":
                    block, written = event["content_block"], ""
                case "content_block_delta":
                    written += event["delta"].get("text") or event["delta"].get("partial_json", "")
                case "content_block_stop" if block["type"] == "tool_use":
                    yield block | {"input": json.loads(written or "{}")}
                case "content_block_stop":
                    yield block | {"text": written}


async def main(task):
    messages = [{"role": "user", "content": task}]
    async with mcp_dispatch.open(workspace=".") as dispatch, httpx2.AsyncClient() as http:
        while messages[-1]["role"] == "user":
            said, executor = [], dispatch.stream()
            request = REQUEST | {"tools": dispatch.definitions(), "messages": messages}
            async for block in blocks_of(http, request):
                said.append(block)
                executor.add(block)  # a call runs as soon as it may, while the model writes on
            messages.append({"role": "assistant", "content": said})
            if results := await executor.remaining():
                messages.append({"role": "user", "content": results})
    print(said[-1]["text"])


anyio.run(main, sys.argv[1])
