"""Runs a text in Bash to record the argument lists it starts and the files it opens."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from mcp_dispatch.shell.ast import Literal, PlainScript, SimpleCommand

COUNT = int(os.environ.get("MCP_DISPATCH_FUZZ_COUNT", "2500"))
SEED = int(os.environ.get("MCP_DISPATCH_FUZZ_SEED", "20261118"))

# With an empty PATH every program ends in the handler, which logs its arguments. Loops are ended
# by their log; newlines are kept out of it, for bash writes line by line and others write too; `cat` hands here-documents on, as the real one does.
_DRIVER = r"""
command_not_found_handle() {
  local _all _line=("$@")
  printf '%s\0' "$#" "${_line[@]//$'\n'/$'\036'}" >> "$_log"
  _all=$(<"$_log")
  (( ${#_all} > 400 )) && kill -9 "$_main"
  return $(( RANDOM % 2 ))
}
cat() { local _line; while IFS= read -r _line; do printf '%s\n' "$_line"; done; }
x=v z='p q' e= HOME=hh
index=0
while IFS= read -r -d '' _text; do
  ( ulimit -t 1; _main=$BASHPID; cd "$_root/$index" && _log="$_root/$index.log" && eval "$_text"
    wait ) </dev/null >/dev/null 2>&1
  index=$((index + 1))
done
"""


def run_in_bash(texts: Sequence[str], root: Path) -> None:
    """Runs each text in a directory of its own, `root/<index>`, with a log beside it."""
    for index in range(len(texts)):
        (root / str(index)).mkdir()
        (root / str(index) / "aa").write_text("", encoding="utf-8")
    subprocess.run(
        [str(shutil.which("bash")), "--norc", "-c", _DRIVER],
        input=b"".join(text.encode() + b"\0" for text in texts),
        env={"PATH": "/nonexistent", "_root": str(root), "LC_ALL": "C.UTF-8"},
        check=False,
        timeout=900,
        capture_output=True,
    )


def started(log: Path) -> list[str]:
    """The argument lists of one log, each joined with U+001F."""
    text = log.read_bytes().decode().replace("\x1e", "\n") if log.exists() else ""
    fields = text.split("\0")[:-1]
    found: list[str] = []
    while fields:
        count = int(fields[0])
        found.append("\x1f".join(fields[1 : count + 1]))
        fields = fields[count + 1 :]
    return found


def expected_line(command: SimpleCommand) -> re.Pattern[str]:
    """What bash may start for this command. A word that expands may become several or none."""
    parts: list[str] = []
    for word in command.words:
        pattern = "".join(
            re.escape(piece.text) if isinstance(piece, Literal) else ".*" for piece in word.pieces
        )
        parts.append(f"\x1f{pattern}" if word.fixed else f"(?:\x1f{pattern})?")
    return re.compile("".join(parts), re.DOTALL)


def expected_files(reading: PlainScript) -> set[str] | None:
    """The files that redirects may create; None where only the shell knows their names."""
    written = [one for command in reading.commands for one in command.redirects if one.writes]
    if not all(one.target.fixed for one in written):
        return None
    return {"aa", *(one.target.value for one in written)}


def compare_runs(believed: Iterable[tuple[str, PlainScript]], root: Path) -> int:
    """How many argument lists bash started; fails at the first that its reading lacks."""
    readings = list(believed)
    run_in_bash([text for text, _ in readings], root)
    count = 0
    for index, (text, reading) in enumerate(readings):
        lines = [expected_line(command) for command in reading.commands if command.words]
        for line in started(root / f"{index}.log"):
            count += 1
            assert any(expected.fullmatch(f"\x1f{line}") for expected in lines), (text, line)
        files = expected_files(reading)
        created = {path.name for path in (root / str(index)).iterdir()}
        assert files is None or created <= files, (text, created)
    return count
