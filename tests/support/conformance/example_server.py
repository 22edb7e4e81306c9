"""A plain server of the SDK's, which the conformance suite runs beside ours: python … PORT."""

import logging
import sys
from socket import AF_INET, SOCK_STREAM, socket

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer

logging.disable(logging.WARNING)
server = MCPServer("example", version="1")


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool()
def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


async def serve(port: int) -> None:
    with socket(AF_INET, SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", port))
        host, port = listening.getsockname()
        sys.stderr.write(f"serving MCP at http://{host}:{port}/mcp\n")
        sys.stderr.flush()
        config = uvicorn.Config(server.streamable_http_app(), log_config=None)
        await uvicorn.Server(config).serve([listening])


if __name__ == "__main__":
    anyio.run(serve, int(sys.argv[1]))
