"""Conversion of HTML to Markdown in a child process, which bounds the cost of a hostile page."""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import anyio

import mcp_dispatch.web
from mcp_dispatch.processes.child import ChildProcess, ProcessStartError
from mcp_dispatch.processes.children import ProcessGroup
from mcp_dispatch.processes.environment import select_baseline

MAX_MARKDOWN_BYTES = 20_000_000
"""Longer Markdown is rejected: it can only consist of repetitions."""

_WORKER_SCRIPT = Path(mcp_dispatch.web.__file__).with_name("markdown_worker.py")
_MAX_CONCURRENT = 2


class MarkdownConverter:
    """Limits concurrent conversions: each may use one processor and much memory."""

    def __init__(self, children: ProcessGroup, environ: Mapping[str, str], seconds: float) -> None:
        self._children = children
        self._environ = select_baseline(environ)
        self._seconds = seconds
        self._slots = anyio.Semaphore(_MAX_CONCURRENT)

    async def convert(self, html: str, base_url: str) -> str | None:
        """Convert a page with this URL; return None on failure, timeout or too much memory."""
        async with self._slots:
            try:
                child = await self._children.spawn(
                    [sys.executable, "-I", str(_WORKER_SCRIPT), base_url],
                    cwd=_WORKER_SCRIPT.parent,
                    env=self._environ,
                    stdin=PIPE,
                    stdout=PIPE,
                )
            except ProcessStartError:
                return None
            async with child:
                with anyio.move_on_after(self._seconds):
                    return await _convert_in_child(child, html.encode("utf-8", "replace"))
        return None


async def _convert_in_child(child: ChildProcess, html: bytes) -> str | None:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        await child.stdin.send(html)
        await child.stdin.aclose()
    except anyio.BrokenResourceError:
        return None
    output = bytearray()
    try:
        while len(output) <= MAX_MARKDOWN_BYTES:
            output += await child.stdout.receive()
    except anyio.EndOfStream:
        return output.decode("utf-8") if await child.wait() == 0 else None
    return None
