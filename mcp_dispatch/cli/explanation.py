"""How `explain` reads a call, has it judged, and words the answer."""

import json
import os
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_state_dir

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.model.decision import Decision, Tier, Vote
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.policy.explain import Call, NoSuchCall, Verdict, allow_line, call_of, judge
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.examples import Failed, failures
from mcp_dispatch.settings.layers import sources_from
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import Settings, SettingsFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_dispatch.cli.flags import Mode

WIDTH = 80
_SUPPORTED = frozenset({"hooks", "env"})
_TIERS = {
    Tier.DENY: "deny",
    Tier.HARD_ASK: "ask",
    Tier.ALLOW: "allow",
    Tier.TOOL_ASK: "the tool's own question",
    Tier.UNDECIDED: "undecided",
}


class Impossible(Exception):
    """What was given describes no call; says what was expected."""


@dataclass(frozen=True, slots=True)
class Court:
    """The rules that a server with the same flags would have."""

    policy: Policy
    workspace: Workspace
    settings: Settings

    @property
    def tests(self) -> int:
        return len(self.settings.rule_tests)

    def failures(self) -> tuple[Failed, ...]:
        return failures(self.settings.rule_tests, self.policy, self.workspace)

    def read(self, tool: str, arguments: str | None) -> Call:
        """The call that the command line describes."""
        try:
            if arguments is None:
                return call_of(tool)
            return call_of({"tool": tool, "input": _parsed(arguments)})
        except NoSuchCall as error:
            raise Impossible(str(error)) from error

    def judge(self, call: Call) -> Verdict:
        try:
            return judge(call, self.policy, self.workspace)
        except NoSuchCall as error:
            raise Impossible(str(error)) from error

    def allow_line(self, call: Call) -> str | None:
        return allow_line(call, self.policy, self.workspace)


def open_court(
    workspace: Path | None,
    settings: "Sequence[Path]",
    state_dir: Path | None,
    mode: "Mode | None",
    *,
    claude: bool,
) -> Court:
    """Reads what a server would read, and makes nothing. Raises `StartError`."""
    sources = sources_from(dict(os.environ), settings, claude=claude)
    chosen = Workspace.choose(workspace, (), Path.cwd())
    found = SettingsFiles(sources, supported=_SUPPORTED).read(chosen.root)
    place = replace(chosen, additional=_present(chosen, found))
    state = state_dir or Path(user_state_dir("mcp-dispatch", appauthor=False))
    own = (Path(os.path.abspath(state.expanduser())), sources.config_dir)  # noqa: PTH100
    wanted = PermissionMode(mode.value) if mode else None
    policy = Policy(found, place.directories, own=own, mode=found.mode_with(wanted))
    return Court(policy, place, found)


def _present(chosen: Workspace, settings: Settings) -> tuple[Path, ...]:
    """Of the directories that settings add, those that can be found."""
    present: list[Path] = []
    for path in settings.additional_directories:
        try:
            present += chosen.with_directories([path]).additional
        except Refused:
            continue
    return tuple(present)


def answer(line: bytes, court: Court) -> JsonObject:
    """One line of a batch, answered; with `error` where it makes no sense."""
    known: JsonObject = {"id": None}
    try:
        entry = _parsed(line.decode("utf-8-sig"))
        known = {"id": entry.get("id")} if isinstance(entry, dict) else known
        if not isinstance(entry, dict):
            raise Impossible('expected {"id": …, "tool": …, "input": {…}}')
        verdict = court.judge(call_of(entry))
    except UnicodeDecodeError:
        return {**known, "error": "the line is not UTF-8"}
    except (Impossible, NoSuchCall) as error:
        return {**known, "error": str(error)}
    return {**known, **explanation(verdict)}


def _parsed(text: str) -> Json:
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise Impossible("the JSON is nested too deeply") from error
    except ValueError as error:
        raise Impossible(f"not JSON: {error}") from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def explanation(verdict: Verdict) -> JsonObject:
    decision = verdict.decision
    return {
        "decision": decision.effect.name.lower(),
        "by": str(decision.by.origin),
        "reason": decision.by.reason,
        "votes": [_vote(vote) for vote in decision.votes],
        "read_only": verdict.read_only,
        "sharing": verdict.sharing.value,
    }


def _vote(vote: Vote) -> JsonObject:
    return {
        "effect": vote.effect.name.lower(),
        "tier": _TIERS[vote.tier],
        "reason": vote.reason,
        "source": vote.origin.source,
        "line": vote.origin.line,
        "rule": vote.origin.rule,
    }


def failure(failed: Failed) -> JsonObject:
    test, by = failed.test, failed.by
    return {
        "file": str(test.file),
        "line": test.line,
        "call": test.call,
        "expected": test.expect.name.lower(),
        "reason": failed.reason,
        "by": None if by is None else _vote(by),
    }


def readable(verdict: Verdict, line: str | None = None) -> str:
    """The decision first, then every vote in the order in which tiers are heard."""
    decision = verdict.decision
    lines = [wrapped(f"{decision.effect.name.lower()}: ", decision.by.reason)]
    lines += [wrapped("  ", text) for text in _place(decision.by)]
    how = "it changes nothing" if verdict.read_only else "it may change something"
    lines.append(f"  {how}, and runs {_company(verdict)}")
    lines += ["", "Votes, those that are heard first at the top:"]
    for vote in _heard(decision):
        lines.append(wrapped(f"  {vote.effect.name.lower():<6}", vote.reason))
        lines += [wrapped(" " * 8, text) for text in _place(vote)]
    if line is not None and decision.by.tier is Tier.UNDECIDED:
        lines += ["", wrapped("To allow it: ", line)]
    return "\n".join(lines)


def _company(verdict: Verdict) -> str:
    return "beside others" if verdict.sharing.value == "shared" else "alone"


def _heard(decision: Decision) -> list[Vote]:
    return sorted(decision.votes, key=lambda vote: (vote.tier, -vote.effect))


def _place(vote: Vote) -> list[str]:
    origin = vote.origin
    place = origin.source if origin.line is None else f"{origin.source}:{origin.line}"
    return [place] if origin.rule is None else [origin.rule, place]


def wrapped(label: str, text: str) -> str:
    from mcp_dispatch.cli.trust import plain

    return textwrap.fill(
        plain(text),
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_on_hyphens=False,
        break_long_words=False,  # a path is there to be copied
    )
