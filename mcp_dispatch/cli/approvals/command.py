"""`mcp-dispatch approvals`: shows the questions of running servers and answers them."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcp_dispatch.cli.flags import StateDirFlag
from mcp_dispatch.cli.trust import fail, refuse_to_models

if TYPE_CHECKING:
    from mcp_dispatch.approval.socket_protocol import ApprovalMessage

approvals = typer.Typer(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class AnswerChoice(StrEnum):
    ALLOW = "allow"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"


@approvals.callback()
def show(
    context: typer.Context,
    state_dir: StateDirFlag = None,
    once: Annotated[
        bool, typer.Option("--once", help="Print what is asked right now, and end.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as --once, as one JSON object.")
    ] = False,
) -> None:
    """Show what the running servers of this user ask, and answer it.

    While this runs in a terminal it is attached: a call whose client cannot show a question waits
    here for your answer. What was refused because nobody could be asked is listed for 10 minutes;
    the same call made again uses your answer.
    """
    refuse_to_models("approvals")
    context.obj = run = _run_directory(state_dir)
    if context.invoked_subcommand is not None:
        return
    if once or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        _print_questions(run, as_json=as_json)
    else:
        from mcp_dispatch.cli.approvals.tui import run_screen

        run_screen(run)


@approvals.command()
def answer(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="As `approvals --once` lists it.")],
    choice: Annotated[
        AnswerChoice,
        typer.Argument(metavar="CHOICE", help="allow (once), session, always or deny."),
    ],
    state_dir: StateDirFlag = None,
    reason: Annotated[
        str, typer.Option("--reason", help="With deny: what the model should know.")
    ] = "",
) -> None:
    """Answer one question: allow (once), session, always or deny."""
    import anyio

    run: Path = context.obj if state_dir is None else _run_directory(state_dir)
    spelt = "once" if choice is AnswerChoice.ALLOW else choice.value
    problem = anyio.run(_send_answer, run, id, spelt, reason)
    if problem is not None:
        fail(f"{id}: {problem}")
    print(f"{id}: {'denied' if choice is AnswerChoice.DENY else f'allowed ({spelt})'}")


def _run_directory(state_dir: Path | None) -> Path:
    from mcp_dispatch.fs.state_dir import StateDirectory
    from mcp_dispatch.model.errors import StartError

    try:
        return StateDirectory.open(state_dir).run
    except StartError as error:
        fail(str(error))


def _print_questions(run: Path, *, as_json: bool) -> None:
    import anyio

    asked, problems = anyio.run(_fetch_questions, run)
    for problem in problems:
        print(f"mcp-dispatch: {problem}", file=sys.stderr)
    if as_json:
        print(json.dumps({"questions": [_to_json(each) for each in asked]}, indent=2))
        return
    if not asked:
        print("Nothing is asked.")
    for number, question in enumerate(asked):
        print(end="\n" if number else "")
        _print_question(question)


async def _fetch_questions(run: Path) -> tuple[list["ApprovalMessage"], list[str]]:
    """Return the questions of all servers, the oldest first, and the unreachable servers."""
    from mcp_dispatch.approval.socket_client import ApprovalServerUnreachable, connect_to_server
    from mcp_dispatch.approval.socket_protocol import list_sockets, remove_stale_sockets

    remove_stale_sockets(run)
    asked: list[ApprovalMessage] = []
    problems: list[str] = []
    for path in list_sockets(run):
        try:
            async with connect_to_server(path) as line:
                asked += await line.list_pending()
        except ApprovalServerUnreachable as reason:
            problems.append(f"the server at {path.name} is left out: {reason}")
    return sorted(asked, key=lambda each: -each.age), problems


async def _send_answer(run: Path, id: str, choice: str, reason: str) -> str | None:
    from mcp_dispatch.approval.socket_client import ApprovalServerUnreachable, connect_to_server
    from mcp_dispatch.approval.socket_protocol import list_sockets

    refused: list[str] = []
    for path in list_sockets(run):
        try:
            async with connect_to_server(path) as line:
                if any(each.id == id for each in await line.list_pending()):
                    return await line.answer(id, choice, reason)
        except ApprovalServerUnreachable as why:
            refused.append(str(why))
    why = f" (a server was left out: {refused[0]})" if refused else ""
    return f"no server asks this: it was answered, withdrawn or too old{why}"


def _print_question(question: "ApprovalMessage") -> None:
    state = (
        "waits" if question.is_call_waiting else "refused; the same call made again uses the answer"
    )
    print(f"{question.id}  {question.tool}  {state}")
    print(f"  in {question.workspace or 'no workspace'}, server {question.server}")
    for line in question.call:
        print(f"  {line}")
    print(f"  Asked because: {question.reason}")
    if question.rules:
        print(f"  Session{' and always add' if question.file else ' adds'}: ", end="")
        print(", ".join(question.rules))
    if question.file:
        print(f"  Always writes it to {question.file}")
    offered = "|".join("allow" if each == "once" else each for each in question.choices)
    print(f"  mcp-dispatch approvals answer {question.id} {offered}")


def _to_json(question: "ApprovalMessage") -> dict[str, object]:
    return {
        "id": question.id,
        "server": question.server,
        "workspace": question.workspace,
        "tool": question.tool,
        "call": list(question.call),
        "because": question.reason,
        "rules": list(question.rules),
        "file": question.file,
        "choices": ["allow" if each == "once" else each for each in question.choices],
        "waits": question.is_call_waiting,
        "ageSeconds": question.age,
    }
