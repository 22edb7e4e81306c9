"""How a command ended: of some commands, exit code 1 is an answer and not a failure."""

import re
import signal
from dataclasses import dataclass
from itertools import pairwise, takewhile

from mcp_dispatch.model.json import JsonObject

_MEANING_OF_ONE: dict[tuple[str, ...], str] = {
    ("grep",): "No matches found",
    ("egrep",): "No matches found",
    ("fgrep",): "No matches found",
    ("rg",): "No matches found",
    ("git", "grep"): "No matches found",
    ("find",): "Some places could not be searched",
    ("diff",): "The files differ",
    ("git", "diff"): "The files differ",
    ("test",): "The condition is false",
    ("[",): "The condition is false",
}

# Where one of these begins a command, the last command may not be what gave the exit code.
_UNSETTLING = frozenset(
    (
        *("set", "shopt", "trap", "exit", "exec", "return", "eval", "source", ".", "command"),
        *("builtin", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done"),
        *("case", "esac", "select", "function", "coproc", "time", "{", "}", "[[", "!"),
    )
)

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t]+)
    | (?P<operator>&&|\|\||\|&?|;|\n|&(?!>))
    | (?P<redirect>&?>>?&?|>\||<&?|<<<)(?![<>(|&])
    | (?P<word>(?:
          [^\s'"\\`$;&|()<>#]
        | (?<=[^\s;&|()<>])\#
        | \\[^\n]
        | '[^']*'
        | "(?:[^"\\`$]|\\.|\$\{\w+\}|\$(?![({]))*"
        | \$\{\w+\}
        | \$(?!['"({])
      )+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"\w+\+?=")


@dataclass(frozen=True, slots=True)
class Ending:
    """`failure` is what the model is told first; empty where there was none."""

    failure: str = ""
    interpretation: str | None = None
    interrupted: bool = False
    timed_out_after_ms: int | None = None

    def response(self, output: str) -> JsonObject:
        response: JsonObject = {"stdout": output, "stderr": "", "interrupted": self.interrupted}
        if self.interpretation is not None:
            response["returnCodeInterpretation"] = self.interpretation
        if self.timed_out_after_ms is not None:
            response["timedOutAfterMs"] = self.timed_out_after_ms
        return response


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """The words of one command and the operator before it (empty for the first)."""

    operator: str
    words: tuple[str, ...]

    @property
    def meaning_of_one(self) -> str | None:
        return _MEANING_OF_ONE.get(self.words[:1]) or _MEANING_OF_ONE.get(self.words[:2])


def meaning(command: str, code: int) -> str | None:
    """What `code` says where it is an answer; None where it is a failure, or may be one."""
    if code != 1:
        return None
    commands = simple_commands(command)
    if not commands or any(each.words[0] in _UNSETTLING for each in commands):
        return None
    if not all(each.meaning_of_one or each.words[0] == "cd" for each in _deciding(commands)):
        return None
    return commands[-1].meaning_of_one


def simple_commands(text: str) -> list[SimpleCommand]:
    """The commands of a line of the plainest shell; none where there is more to it than that."""
    commands: list[SimpleCommand] = []
    operator, words, place = "", list[str](), 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            return []
        place = token.end()
        if token.lastgroup in {"word", "redirect"}:
            words.append(token.group())
        elif token.lastgroup == "operator":
            commands += _command(operator, words)
            operator, words = token.group() if words else operator, []
    return commands + _command(operator, words)


def _command(operator: str, words: list[str]) -> list[SimpleCommand]:
    first = len(list(takewhile(_ASSIGNMENT.match, words)))
    return [SimpleCommand(operator, tuple(words[first:]))] if words[first:] else []


def _deciding(commands: list[SimpleCommand]) -> list[SimpleCommand]:
    """Those of whom a failing line may have its exit code: the last, and what it depends on."""
    deciding = [commands[-1]]
    for before, after in reversed(list(pairwise(commands))):
        if after.operator == "&&":
            deciding.append(before)
        elif after.operator not in {"|", "|&"}:
            break
    return deciding


def spoken(returncode: int) -> str:
    """`Exit code 2`; for death by a signal the code a shell would give, and the signal's name."""
    if returncode >= 0:
        return f"Exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"Exit code {128 - returncode} (killed by {name})"


def timed_out(milliseconds: int, *, not_moved: str | None = None) -> Ending:
    """`not_moved` is why it could not go on in the background, where it otherwise would have."""
    failure = f"Command timed out after {duration(milliseconds / 1000)}"
    return Ending(
        failure if not_moved is None else f"{failure} and was ended: {not_moved}",
        interrupted=True,
        timed_out_after_ms=milliseconds,
    )


def stopped(problem: str) -> Ending:
    return Ending(f"Command was stopped: {problem}", interrupted=True)


def ended(command: str, returncode: int) -> Ending:
    if returncode == 0:
        return Ending()
    interpretation = meaning(command, returncode)
    return Ending("" if interpretation else spoken(returncode), interpretation)


def duration(seconds: float) -> str:
    """`2m 0s`, `30s`, `0.5s`."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m {int(rest)}s" if minutes else f"{rest:g}s"
