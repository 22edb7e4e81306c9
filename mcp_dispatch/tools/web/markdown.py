"""HTML becomes Markdown in a child process, so that a hostile page costs seconds and no more."""

import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import anyio

import mcp_dispatch.web
from mcp_dispatch.processes.child import CannotStart, Child
from mcp_dispatch.processes.children import Children
from mcp_dispatch.processes.environment import baseline

LONGEST = 20_000_000
"""Bytes of Markdown; what is longer is made of repetitions."""

_PROGRAM = Path(mcp_dispatch.web.__file__).with_name("markdown_worker.py")
_AT_ONCE = 2


class Converter:
    """Runs few conversions at once: each may take a processor and much memory."""

    def __init__(self, children: Children, environ: Mapping[str, str], seconds: float) -> None:
        self._children = children
        self._environ = baseline(environ)
        self._seconds = seconds
        self._turn = anyio.Semaphore(_AT_ONCE)

    async def markdown(self, html: str, base: str) -> str | None:
        """None where it takes too long, too much memory, or fails. `base` is the page's URL."""
        async with self._turn:
            try:
                child = await self._children.spawn(
                    [sys.executable, "-I", str(_PROGRAM), base],
                    cwd=_PROGRAM.parent,
                    env=self._environ,
                    stdin=PIPE,
                    stdout=PIPE,
                )
            except CannotStart:
                return None
            async with child:
                with anyio.move_on_after(self._seconds):
                    return await _converse(child, html.encode("utf-8", "replace"))
        return None


async def _converse(child: Child, html: bytes) -> str | None:
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        await child.stdin.send(html)
        await child.stdin.aclose()
    except anyio.BrokenResourceError:
        return None
    printed = bytearray()
    try:
        while len(printed) <= LONGEST:
            printed += await child.stdout.receive()
    except anyio.EndOfStream:
        return printed.decode("utf-8") if await child.wait() == 0 else None
    return None
