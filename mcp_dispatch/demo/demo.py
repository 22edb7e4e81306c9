"""`mcp-dispatch demo`: a real server, a real client and a small upstream, shown step by step."""

import json
import sys
import tempfile
import textwrap
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    from anyio.abc import Process
    from mcp import Client
    from mcp.client.session import ClientRequestContext
    from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

WIDTH = 78
MAX_SHOWN_LINES = 10
NOTES = "# Shopping\n\n- tea\n- milk\n- bread\n"
SETTINGS: dict[str, Any] = {
    "permissions": {
        "allow": ["Edit(./**)", "Bash(seq *)", "mcp__demo", "mcp__shelf"],
        "deny": ["Read(./.env)"],
    },
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Write",
                "hooks": [
                    {
                        "type": "command",
                        "command": "! grep -q TODO || { echo finish it first >&2; exit 2; }",
                    }
                ],
            }
        ]
    },
}


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the temporary workspace and say where it is.")
    ] = False,
) -> None:
    """Show in a minute what mcp-dispatch does, with nothing configured."""
    import anyio

    directory = Path(tempfile.mkdtemp(prefix="mcp-dispatch-demo-"))
    try:
        anyio.run(_run_demo, directory)
    finally:
        if keep:
            print(f"\nKept: {directory}")
        else:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)


async def _run_demo(directory: Path) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = _prepare(directory)
    _print_introduction(directory, arguments)
    user = _ScriptedUser()
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mcp_dispatch", *arguments], cwd=directory / "workspace"
    )
    with (directory / "server.stderr").open("w", encoding="utf-8") as errors:
        transport = stdio_client(server, errlog=errors)
        async with Client(transport, elicitation_callback=user.answer) as client:
            for number, step in enumerate(STEPS, 1):
                title = (step.__doc__ or "").strip()
                print(f"\n{number}. {title}\n{'─' * WIDTH}")
                await step(_StepContext(client, directory))
    print(f"\n{'─' * WIDTH}\nThat was mcp-dispatch. Register it with your client: see README.md.")


def _prepare(directory: Path) -> list[str]:
    """Create a workspace, rules and upstream servers; return the arguments of `serve`."""
    workspace = directory / "workspace"
    workspace.mkdir()
    (workspace / "notes.md").write_text(NOTES, encoding="utf-8")
    (workspace / ".env").write_text("PASSWORD=not-for-models\n", encoding="utf-8")
    settings, servers = directory / "settings.json", directory / "servers.json"
    settings.write_text(json.dumps(SETTINGS, indent=2), encoding="utf-8")
    upstream = {"command": sys.executable, "args": ["-m", "mcp_dispatch.demo.upstream"]}
    both = {"demo": upstream, "shelf": {**upstream, "alwaysLoad": False}}
    servers.write_text(json.dumps({"mcpServers": both}, indent=2), encoding="utf-8")
    return _build_arguments(directory)


def _build_arguments(directory: Path) -> list[str]:
    return [
        "serve",
        *("--workspace", str(directory / "workspace")),
        *("--settings", str(directory / "settings.json")),
        *("--mcp-config", str(directory / "servers.json")),
        *("--state-dir", str(directory / "state")),
    ]


def _print_introduction(directory: Path, arguments: list[str]) -> None:
    shown = " ".join(arguments).replace(str(directory), "DEMO")
    print("mcp-dispatch: one MCP server in front of all of your tools.\n")
    print(_wrap(f"A real server is started: mcp-dispatch {shown}", ""))
    print(_wrap(f"where DEMO is {directory}, and these are its rules:", ""))
    print(_wrap(json.dumps(SETTINGS["permissions"]), "  "))


class _ScriptedUser:
    """Answers questions: allows the first once and the second for the session."""

    def __init__(self) -> None:
        self._answers = iter(("allow once", "allow for this session"))

    async def answer(
        self, context: "ClientRequestContext", params: "ElicitRequestParams"
    ) -> "ElicitResult":
        from mcp_types import ElicitResult

        print("   ? the client shows this form:")
        for line in params.message.splitlines():
            print(_wrap(line, "   ? │ ") if line else "   ? │")
        schema = cast("dict[str, Any]", getattr(params, "requested_schema", {}))
        offered = schema.get("properties", {}).get("decision", {}).get("enum", [])
        print(_wrap(" ".join(f"[{choice}]" for choice in offered), "   ? │ "))
        decision = next(self._answers)
        print(f'   ? the person answers: "{decision}"')
        return ElicitResult(action="accept", content={"decision": decision})


@dataclass(frozen=True)
class _StepContext:
    """The client and directories that a step uses."""

    client: "Client"
    directory: Path
    workspace: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "workspace", self.directory / "workspace")

    async def call(self, name: str, /, **arguments: Any) -> None:
        print(_wrap(f"→ {name} {json.dumps(arguments)}", "   "))
        print_result(await self.client.call_tool(name, arguments))


async def list_tools(context: _StepContext) -> None:
    """The list: built-ins first, then the tools of the upstream server `demo`"""
    listed = await context.client.list_tools()
    for tool in listed.tools:
        hints = tool.annotations
        kind = "shared" if hints and hints.read_only_hint else "exclusive"
        print(f"   {tool.name:<20} {kind:<10} {_extract_first_sentence(tool.description or '')}")


async def show_allowed_call(context: _StepContext) -> None:
    """An allowed call: reading in the workspace needs no rule"""
    await context.call("Read", file_path="notes.md")


async def show_denied_call(context: _StepContext) -> None:
    """A denied call: the answer names the rule and its line"""
    await context.call("Read", file_path=".env")


async def show_validation_error(context: _StepContext) -> None:
    """Arguments that break the schema: nothing runs, the model is told why"""
    await context.call("Edit", file="notes.md", old_string="tea", new_string=7)
    await context.call("demo__roll_dice", sides="six")


async def show_edit(context: _StepContext) -> None:
    """An edit, answered with its diff"""
    await context.call("Edit", file_path="notes.md", old_string="- tea", new_string="- green tea")


async def show_hook(context: _StepContext) -> None:
    """A hook: a script reads every Write and refuses those with a TODO in them"""
    hook = SETTINGS["hooks"]["PreToolUse"][0]
    print(_wrap(f"hook for {hook['matcher']}: {hook['hooks'][0]['command']}", "   "))
    await context.call("Write", file_path="plan.md", content="# Plan\n\nTODO\n")
    await context.call("Write", file_path="plan.md", content="# Plan\n\nTea first.\n")


async def show_search(context: _StepContext) -> None:
    """A search: what a rule denies is not found either"""
    await context.call("Glob", pattern="**/*")
    await context.call("Grep", pattern="tea|not-for-models", output_mode="content")


async def show_ask(context: _StepContext) -> None:
    """An ask: no rule covers this; a person decides, once, then for the session"""
    await context.call("Bash", command="mkdir drafts && cp notes.md drafts/ && ls drafts")
    await context.call("Bash", command="cp notes.md drafts/second.md")
    await context.call("Bash", command="cp notes.md drafts/third.md && ls drafts")


async def show_upstream_call(context: _StepContext) -> None:
    """An upstream tool, through the same pipeline, with progress while it runs"""

    async def print_progress(progress: float, total: float | None, message: str | None) -> None:
        print(f"   … {message} ({progress:g} of {total or 0:g})")

    print('   → demo__count_slowly {"to": 3}')
    print_result(
        await context.client.call_tool(
            "demo__count_slowly", {"to": 3}, progress_callback=print_progress
        )
    )


async def show_deferred_tool(context: _StepContext) -> None:
    """A tool that is not listed, since there may be hundreds: found, then called"""
    await context.call("tool_search", query="mcp__shelf how to roll dice", max_results=1)
    await context.call("call_tool", name="shelf__roll_dice", arguments={"count": 2})


async def show_parallel_calls(context: _StepContext) -> None:
    """Five calls at once: shared ones run together, an exclusive one alone"""
    import anyio

    counting: tuple[str, dict[str, Any]] = ("demo__count_slowly", {"to": 3})
    writing: tuple[str, dict[str, Any]] = ("Write", {"file_path": "done.txt", "content": "ok\n"})
    calls = [counting, counting, writing, counting, counting]
    finished: dict[int, float] = {}
    begun = anyio.current_time()

    async def call_one(number: int, name: str, arguments: dict[str, Any]) -> None:
        await context.client.call_tool(name, arguments)
        finished[number] = anyio.current_time() - begun

    async with anyio.create_task_group() as tasks:
        for number, (name, arguments) in enumerate(calls):
            tasks.start_soon(call_one, number, name, arguments)
    for number, (name, _) in enumerate(calls):
        bar = "█" * round(finished[number] * 20)
        print(f"   {name:<20} answered after {finished[number]:4.1f} s {bar}")


async def show_large_result(context: _StepContext) -> None:
    """A large result: kept whole in a file, and shown by its beginning"""
    from mcp_types import TextContent

    print('   → Bash {"command": "seq 1 20000"}')
    result = await context.client.call_tool("Bash", {"command": "seq 1 20000"})
    print_result(result)
    text = next(block.text for block in result.content if isinstance(block, TextContent))
    path = text.partition("saved to: ")[2].partition("\n")[0]
    await context.call("Read", file_path=path, offset=19_999, limit=2)


async def show_http(context: _StepContext) -> None:
    """The same over HTTP: another server, and a client of the older protocol era"""
    import anyio
    from mcp import Client

    arguments = [*_build_arguments(context.directory), "--http", "127.0.0.1:0", "--no-auth"]
    command = [sys.executable, "-m", "mcp_dispatch", *arguments]
    async with await anyio.open_process(command, stdin=DEVNULL, stdout=DEVNULL) as server:
        try:
            url = await _read_url(server)
            print(f"   → {url}")
            async with Client(url, mode="legacy") as client:
                listed = await client.list_tools()
                version = client.protocol_version
                print(f"   ← {len(listed.tools)} tools, in protocol version {version}")
        finally:
            server.terminate()


async def _read_url(server: "Process") -> str:
    """Return the address that the server prints to stderr."""
    import re

    import anyio

    output = b""
    with anyio.fail_after(30):
        while not (match := re.search(rb"at (http://\S+/mcp)\n", output)):
            assert server.stderr is not None
            output += await server.stderr.receive()
    return match.group(1).decode()


async def show_journal(context: _StepContext) -> None:
    """The journal: one line per call, whatever became of it, and what hooks did"""
    for file in sorted((context.directory / "state" / "journal").iterdir()):
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "event" in entry:
                print(f"   {entry['hook']:<25} {entry['event']}")
                continue
            why = entry.get("by") or ""
            print(
                f"   {entry['tool']:<25} {entry['outcome']:<10} {why:<11} {entry['seconds']:.3f} s"
            )


STEPS: tuple[Callable[[_StepContext], Awaitable[None]], ...] = (
    list_tools,
    show_allowed_call,
    show_denied_call,
    show_validation_error,
    show_edit,
    show_hook,
    show_search,
    show_ask,
    show_upstream_call,
    show_deferred_tool,
    show_parallel_calls,
    show_large_result,
    show_http,
    show_journal,
)


def print_result(result: "CallToolResult") -> None:
    from mcp_types import TextContent

    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    lines = "\n".join(texts).splitlines()
    mark = "✗" if result.is_error else "←"
    for line in lines[:MAX_SHOWN_LINES]:
        print(_wrap(f"{mark} {line}", "   "))
    if len(lines) > MAX_SHOWN_LINES:
        print(f"   {mark} …")


def _wrap(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        replace_whitespace=False,
        break_on_hyphens=False,
    )


def _extract_first_sentence(text: str) -> str:
    sentence = text.split(". ")[0].split("\n")[0].rstrip(".")
    return textwrap.shorten(sentence, WIDTH - 36, placeholder="…")
