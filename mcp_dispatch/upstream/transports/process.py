"""One life of a server's process: started with its environment, its stderr kept, ended for good."""

import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from mcp_dispatch.processes.children import Child, Children
from mcp_dispatch.processes.environment import baseline, inherited
from mcp_dispatch.upstream.config.model import Launch
from mcp_dispatch.upstream.transports.process__stderr_log import StderrLog

# Seconds: to leave by itself once its stdin is closed; between TERM and KILL; for the last words.
_FAREWELL: Final = 1.0
_GRACE: Final = 2.0
_LAST_WORDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running child with all three pipes; `log` takes its stderr, and whatever else is odd."""

    child: Child
    stdin: ByteSendStream
    stdout: ByteReceiveStream
    log: StderrLog

    async def exit_text(self, patience: float) -> str | None:
        """How it ended by itself, if it does so within `patience` seconds."""
        with anyio.move_on_after(patience):
            code = await self.child.wait()
            return _exit_in_words(code)
        return None


def child_environment(launch: Launch, environ: Mapping[str, str]) -> dict[str, str]:
    """A baseline, what `inheritEnv` names, and the server's own `env`; no secret of others."""
    if launch.inherit_env is True:
        chosen = inherited(environ)
    else:
        chosen = {name: environ[name] for name in launch.inherit_env if name in environ}
    return {**baseline(environ), **chosen, **launch.env}


@asynccontextmanager
async def running(
    launch: Launch, children: Children, log: StderrLog, environ: Mapping[str, str], cwd: Path
) -> AsyncGenerator[ServerProcess, None]:
    """The server's process, which does not outlive the block. Raises `CannotStart`, `OSError`."""
    with log:
        child = await children.spawn(
            [launch.command, *launch.args],
            cwd=cwd,
            env=child_environment(launch, environ),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        drained = anyio.Event()
        async with anyio.create_task_group() as draining:
            draining.start_soon(_drain, child.stderr, log, drained)
            try:
                yield ServerProcess(child, child.stdin, child.stdout, log)
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(child, drained)
                draining.cancel_scope.cancel()


async def _end(child: Child, drained: anyio.Event) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    await child.stdin.aclose()
    with anyio.move_on_after(_FAREWELL):
        await child.wait()
    await child.stop(_GRACE)
    with anyio.move_on_after(_LAST_WORDS):
        await drained.wait()
    await child.stdout.aclose()
    await child.stderr.aclose()


async def _drain(stream: ByteReceiveStream, log: StderrLog, drained: anyio.Event) -> None:
    try:
        while True:
            log.write(await stream.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
    finally:
        drained.set()


def _exit_in_words(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
