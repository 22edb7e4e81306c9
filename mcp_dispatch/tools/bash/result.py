"""The outcome of a command, and its output as text.

For some commands exit code 1 is a result (no match, files differ) and not a failure.
"""

import codecs
import re
import signal
from dataclasses import dataclass
from itertools import pairwise, takewhile

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.text import shorten
from mcp_dispatch.model.tools import (
    ContextChange,
    FileDelivered,
    Replacement,
    ReplacementReason,
    ToolResult,
    build_text_block,
)
from mcp_dispatch.processes.output_file import OutputFile
from mcp_dispatch.results.markers import build_resource_link, render_persisted_preview
from mcp_dispatch.results.preview import PREVIEW_BYTES, build_preview
from mcp_dispatch.results.store import StoredResult

_EXIT_CODE_1_MEANINGS: dict[tuple[str, ...], str] = {
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

# After one of these words, the exit code may come from another command than the last.
_CONTROL_WORDS = frozenset(
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
class CommandOutcome:
    """`failure` is the first line of the result; it is empty if the command succeeded."""

    failure: str = ""
    interpretation: str | None = None
    interrupted: bool = False
    timed_out_after_ms: int | None = None

    def build_response(self, output: str) -> JsonObject:
        response: JsonObject = {"stdout": output, "stderr": "", "interrupted": self.interrupted}
        if self.interpretation is not None:
            response["returnCodeInterpretation"] = self.interpretation
        if self.timed_out_after_ms is not None:
            response["timedOutAfterMs"] = self.timed_out_after_ms
        return response


@dataclass(frozen=True, slots=True)
class PlainCommand:
    """The words of one command and the operator before it (empty for the first)."""

    operator: str
    words: tuple[str, ...]

    @property
    def exit_code_1_meaning(self) -> str | None:
        return _EXIT_CODE_1_MEANINGS.get(self.words[:1]) or _EXIT_CODE_1_MEANINGS.get(
            self.words[:2]
        )


def explain_exit_code(command: str, code: int) -> str | None:
    """Return the meaning of an exit code that is no failure, or None if it may be one."""
    if code != 1:
        return None
    commands = split_commands(command)
    if not commands or any(each.words[0] in _CONTROL_WORDS for each in commands):
        return None
    if not all(
        each.exit_code_1_meaning or each.words[0] == "cd"
        for each in _find_deciding_commands(commands)
    ):
        return None
    return commands[-1].exit_code_1_meaning


def split_commands(text: str) -> list[PlainCommand]:
    """Split a line into simple commands; return none if it uses other shell syntax."""
    commands: list[PlainCommand] = []
    operator, words, position = "", list[str](), 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return []
        position = token.end()
        if token.lastgroup in {"word", "redirect"}:
            words.append(token.group())
        elif token.lastgroup == "operator":
            commands += _build_command(operator, words)
            operator, words = token.group() if words else operator, []
    return commands + _build_command(operator, words)


def _build_command(operator: str, words: list[str]) -> list[PlainCommand]:
    first = len(list(takewhile(_ASSIGNMENT.match, words)))
    return [PlainCommand(operator, tuple(words[first:]))] if words[first:] else []


def _find_deciding_commands(commands: list[PlainCommand]) -> list[PlainCommand]:
    """Return the commands that may determine the exit code: the last, and those it depends on."""
    deciding = [commands[-1]]
    for before, after in reversed(list(pairwise(commands))):
        if after.operator == "&&":
            deciding.append(before)
        elif after.operator not in {"|", "|&"}:
            break
    return deciding


def format_exit_code(returncode: int) -> str:
    """Return `Exit code 2`, or for a signal the code that a shell returns and the signal's name."""
    if returncode >= 0:
        return f"Exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"Exit code {128 - returncode} (killed by {name})"


def describe_timeout(timeout_ms: int, *, move_problem: str | None = None) -> CommandOutcome:
    """`move_problem`: why the command could not continue in the background."""
    failure = f"Command timed out after {format_duration(timeout_ms / 1000)}"
    return CommandOutcome(
        failure if move_problem is None else f"{failure} and was ended: {move_problem}",
        interrupted=True,
        timed_out_after_ms=timeout_ms,
    )


def describe_stop(reason: str) -> CommandOutcome:
    return CommandOutcome(f"Command was stopped: {reason}", interrupted=True)


def describe_exit(command: str, returncode: int) -> CommandOutcome:
    if returncode == 0:
        return CommandOutcome()
    interpretation = explain_exit_code(command, returncode)
    return CommandOutcome("" if interpretation else format_exit_code(returncode), interpretation)


def format_duration(seconds: float) -> str:
    """Return for example `2m 0s`, `30s` or `0.5s`."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m {int(rest)}s" if minutes else f"{rest:g}s"


LAST_LINE_BYTES = 4096
MAX_LAST_LINE_CHARS = 200
MAX_HEADLINE_CHARS = 80


def render_output(output_file: OutputFile, max_bytes: int) -> str:
    """Return the output; its start and its end if it has more than `max_bytes` bytes."""
    if output_file.size <= max_bytes:
        return decode_output(output_file.read(0, output_file.size))
    half = max_bytes // 2
    head = _trim_partial_character(output_file.read(0, half))
    tail = _strip_continuation_bytes(output_file.read(output_file.size - half, half))
    left_out = output_file.size - len(head) - len(tail)
    return (
        f"{decode_output(head)}\n\n... [{left_out:,} bytes left out] ...\n\n{decode_output(tail)}"
    )


def decode_output(raw: bytes) -> str:
    """Decode UTF-8, replace invalid bytes, and remove one newline at the end."""
    return raw.decode("utf-8", errors="replace").removesuffix("\n")


def read_last_line(output_file: OutputFile) -> str:
    """Return the last line that is not blank, for a progress message; "" if there is none."""
    start = max(0, output_file.size - LAST_LINE_BYTES)
    text = decode_output(output_file.read(start, LAST_LINE_BYTES))
    lines = [line for line in re.split(r"[\r\n]+", text) if line.strip()]
    return _replace_unprintable(lines[-1])[:MAX_LAST_LINE_CHARS] if lines else ""


def format_headline(command: str) -> str:
    """Return the start of a command on one line, for lists and messages."""
    return shorten(" ".join(_replace_unprintable(command).split()), MAX_HEADLINE_CHARS)


def _trim_partial_character(raw: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    incomplete, _ = decoder.getstate()
    return raw[: len(raw) - len(incomplete)]


def _strip_continuation_bytes(raw: bytes) -> bytes:
    start = next((index for index, byte in enumerate(raw[:4]) if byte & 0xC0 != 0x80), 0)
    return raw[start:]


def _replace_unprintable(line: str) -> str:
    return "".join(character if character.isprintable() else " " for character in line).strip()


def build_persisted_result(
    outcome: CommandOutcome,
    output_file: OutputFile,
    stored: StoredResult,
    note: str,
    changes: tuple[ContextChange, ...],
) -> ToolResult:
    """Return a preview and a link; `note` is appended to the preview."""
    # More than a preview holds, so that `build_preview` decides where it ends.
    shown = build_preview(decode_output(output_file.read(0, PREVIEW_BYTES * 2)))
    text = "\n".join(part for part in (render_persisted_preview(shown, stored), note) if part)
    response: JsonObject = {
        **outcome.build_response(shown),
        "persistedOutputPath": str(stored.path),
        "persistedOutputSize": stored.size,
    }
    return ToolResult(
        {"content": [build_text_block(text), build_resource_link(stored, "text/plain")]},
        response,
        (*changes, FileDelivered(str(stored.path))),
        (Replacement(ReplacementReason.STREAM, "text", stored.size, str(stored.path)),),
    )
