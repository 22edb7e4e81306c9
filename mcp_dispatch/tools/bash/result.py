"""How a command ended: of some commands, exit code 1 is an answer and not a failure."""

import codecs
import re
import signal
from dataclasses import dataclass
from itertools import pairwise, takewhile

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import ContextChange, FileDelivered, Replacement, ToolResult, Why
from mcp_dispatch.processes.output_file import Recording
from mcp_dispatch.results.markers import link, persisted_preview
from mcp_dispatch.results.preview import PREVIEW_BYTES, preview
from mcp_dispatch.results.store import Kept

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


LAST_LINE_BYTES = 4096
LAST_LINE_CHARACTERS = 200
HEADLINE_CHARACTERS = 80


def shown(recording: Recording, limit: int) -> str:
    """All of it, or its beginning and its end where it has more than `limit` bytes."""
    if recording.size <= limit:
        return decoded(recording.read(0, recording.size))
    half = limit // 2
    head = _whole_characters(recording.read(0, half))
    tail = _without_continuation(recording.read(recording.size - half, half))
    left_out = recording.size - len(head) - len(tail)
    return f"{decoded(head)}\n\n... [{left_out:,} bytes left out] ...\n\n{decoded(tail)}"


def decoded(raw: bytes) -> str:
    """UTF-8 with what is not UTF-8 replaced, and no newline at the end."""
    return raw.decode("utf-8", errors="replace").removesuffix("\n")


def last_line(recording: Recording) -> str:
    """The last line that shows anything, for somebody who waits; empty where there is none."""
    start = max(0, recording.size - LAST_LINE_BYTES)
    text = decoded(recording.read(start, LAST_LINE_BYTES))
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return _printable(lines[-1])[:LAST_LINE_CHARACTERS] if lines else ""


def headline(command: str) -> str:
    """The beginning of a command, on one line, for a list of several."""
    line = " ".join(_printable(command).split())
    return line if len(line) <= HEADLINE_CHARACTERS else f"{line[: HEADLINE_CHARACTERS - 1]}…"


def _whole_characters(raw: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    unfinished, _ = decoder.getstate()
    return raw[: len(raw) - len(unfinished)]


def _without_continuation(raw: bytes) -> bytes:
    start = next((at for at, byte in enumerate(raw[:4]) if byte & 0xC0 != 0x80), 0)
    return raw[start:]


def _printable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line).strip()


def persisted_result(
    ending: Ending,
    recording: Recording,
    kept: Kept,
    note: str,
    changes: tuple[ContextChange, ...],
) -> ToolResult:
    """`note` is what else there is to say of a command that did not fail."""
    # A little more than what is shown, so that the cut is made by the rules of every preview.
    shown = preview(decoded(recording.read(0, PREVIEW_BYTES * 2)))
    text = "\n".join(part for part in (persisted_preview(shown, kept), note) if part)
    response: JsonObject = {
        **ending.response(shown),
        "persistedOutputPath": str(kept.path),
        "persistedOutputSize": kept.size,
    }
    return ToolResult(
        {"content": [{"type": "text", "text": text}, link(kept, "text/plain")]},
        response,
        (*changes, FileDelivered(str(kept.path))),
        (Replacement(Why.STREAM, "text", kept.size, str(kept.path)),),
    )
