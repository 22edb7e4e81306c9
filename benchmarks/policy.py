"""How long a decision takes: `python -m benchmarks.policy` prints a table of microseconds.

Each row is one kind of call, judged again and again against 10, 100 and 1,000 rules of its kind.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.policy.commands.expand import parse_command as read_command
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import LayerKind, RuleSettings, RuleText, Settings

SIZES = (10, 100, 1_000)
ROUNDS = 400
GOAL = 1_000.0
"""Microseconds that the median may take against a thousand rules."""

Making = Callable[[int], Iterator[str]]


@dataclass(frozen=True)
class Kind:
    """A call, and rules of the kind that is tried on it; the last of them means the call."""

    name: str
    tool: str
    arguments: JsonObject
    rules: Making
    last: str


def commands(count: int) -> Iterator[str]:
    return (f"Bash(program{at} sub{at % 7}:*)" for at in range(count))


def one_program(count: int) -> Iterator[str]:
    return (f"Bash(npm run task{at}:*)" for at in range(count))


def open_commands(count: int) -> Iterator[str]:
    return (f"Bash(* --flag{at})" for at in range(count))


def folders(count: int) -> Iterator[str]:
    return (f"Edit(folder{at}/inner/**)" for at in range(count))


def reading(count: int) -> Iterator[str]:
    shapes = ("Read(folder{}/**)", "Read(*.ending{})", "Read(**/name{}/*.txt)", "Read(~/.dir{}/)")
    return (shapes[at % len(shapes)].format(at) for at in range(count))


def tools(count: int) -> Iterator[str]:
    return (f"mcp__server{at % 50}__tool{at}" for at in range(count))


def one_server(count: int) -> Iterator[str]:
    return (f"mcp__server__tool{at}" for at in range(count))


def parameters(count: int) -> Iterator[str]:
    return (f"mcp__server__tool(name:value{at})" for at in range(count))


def hosts(count: int) -> Iterator[str]:
    return (f"WebFetch(domain:*.host{at}.example)" for at in range(count))


def shell(command: str) -> JsonObject:
    return {"command": command}


KINDS = (
    Kind("Bash, simple", "Bash", shell("npm run test -- -v"), commands, "Bash(npm run test:*)"),
    Kind("Bash, one program", "Bash", shell("npm run test"), one_program, "Bash(npm run test:*)"),
    Kind("Bash, rules with * first", "Bash", shell("npm run test"), open_commands, "Bash(npm:*)"),
    Kind(
        "Bash, five parts",
        "Bash",
        shell("cd src && git add a.py && git commit -m 'a b' | tee log.txt; npm test"),
        commands,
        "Bash(npm test)",
    ),
    Kind("Bash, loop", "Bash", shell("for i in a b; do make $i; done"), commands, "Bash(make:*)"),
    Kind("Edit", "Edit", {"file_path": "src/a/b/c.py"}, folders, "Edit(src/**)"),
    Kind("Write, new folder", "Write", {"file_path": "new/a/b.py"}, folders, "Edit(new/**)"),
    Kind("Read", "Read", {"file_path": "src/a/b/c.py"}, reading, "Read(src/**)"),
    Kind("mcp tool", "mcp__server__tool", {}, tools, "mcp__server__tool"),
    Kind("mcp, one server", "mcp__server__tool", {}, one_server, "mcp__server__*"),
    Kind("mcp, by argument", "mcp__server__tool", {"name": "x"}, parameters, "mcp__server__tool"),
    Kind(
        "WebFetch",
        "WebFetch",
        {"url": "https://a.b.example/x"},
        hosts,
        "WebFetch(domain:*.b.example)",
    ),
)


def policy_of(kind: Kind, count: int, workspace: Path) -> Policy:
    """A third of the rules deny, ask and allow each; the last one, which means the call, asks."""
    effects = (Effect.DENY, Effect.ASK, Effect.ALLOW)
    texts = [*kind.rules(count - 1), kind.last]
    rules = [
        RuleText(effect, text, workspace / "settings.json", at, LayerKind.USER, workspace)
        for at, text in enumerate(texts, start=1)
        for effect in (effects[at % 3] if at < len(texts) else Effect.ASK,)
        if effect is not Effect.ALLOW or "(name:" not in text
    ]
    home = workspace / "home"
    return Policy(
        Settings(rules=RuleSettings(texts=tuple(rules))),
        [workspace],
        [],
        PermissionMode.DEFAULT,
        home=home,
    )


def subject_of(kind: Kind, workspace: Path) -> Subject:
    arguments = dict(kind.arguments)
    if "file_path" in arguments:
        arguments["file_path"] = str(workspace / str(arguments["file_path"]))
    server = "server" if kind.tool.startswith("mcp__") else None
    return Subject(kind.tool, kind.tool, server, arguments, arguments, workspace)


def microseconds(kind: Kind, count: int, workspace: Path) -> list[float]:
    policy, subject = policy_of(kind, count, workspace), subject_of(kind, workspace)
    times: list[float] = []
    for _ in range(ROUNDS):
        read_command.cache_clear()  # every call has a command of its own
        start = perf_counter()
        decision = policy.evaluate(subject)
        times.append((perf_counter() - start) * 1e6)
        if decision.effect is not Effect.ASK or decision.undecided:
            raise SystemExit(f"{kind.name}: the last rule was not found among {count}")
    return sorted(times[ROUNDS // 10 :])


def row(kind: Kind, workspace: Path) -> tuple[str, float]:
    cells: list[str] = []
    median = 0.0
    for count in SIZES:
        times = microseconds(kind, count, workspace)
        median = statistics.median(times)
        cells.append(f"{median:>7.0f} {times[int(len(times) * 0.99)]:>7.0f}")
    return f"{kind.name:<26}" + "  ".join(cells), median


def main(chosen: Sequence[str]) -> None:
    heads = "  ".join(f"{f'{count:,} rules':>15}" for count in SIZES)
    print(f"{'microseconds':<26}{heads}")
    print(f"{'':<26}" + "  ".join(f"{'median':>7} {'p99':>7}" for _ in SIZES))
    slow: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder).resolve() / "workspace"
        (workspace / "src" / "a" / "b").mkdir(parents=True)
        for kind in KINDS:
            if not chosen or any(word in kind.name for word in chosen):
                line, median = row(kind, workspace)
                print(line)
                slow += [kind.name] if median > GOAL else []
    if slow:
        raise SystemExit(f"over {GOAL:.0f} microseconds on the median: {', '.join(slow)}")


if __name__ == "__main__":
    main(sys.argv[1:])
