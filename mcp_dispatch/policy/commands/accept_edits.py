"""Commands that mode acceptEdits takes for edits: a few programs, in their plain forms."""

import re
from collections.abc import Callable, Sequence

from mcp_dispatch.policy.commands.file_access import Touch
from mcp_dispatch.policy.commands.wrappers import strictly_unwrapped
from mcp_dispatch.policy.facts import Evidence
from mcp_dispatch.policy.rules.allow import assigns_harmlessly, is_plain_move
from mcp_dispatch.shell.ast import Plain, SimpleCommand, Word

_FLAGS = {
    "mkdir": re.compile(r"-[pv]+|--parents|--verbose"),
    "touch": re.compile(r"-[acm]+"),
    "rm": re.compile(r"-[rRfdvi]+|--recursive|--force|--verbose"),
    "rmdir": re.compile(r"-v|--verbose"),
    "mv": re.compile(r"-[fnvi]+"),
    # A tree that is copied may bring a file that is protected where it lands.
    "cp": re.compile(r"-[fnvip]+"),
    "sed": re.compile(r"-[inEr]+"),
}
_SUBSTITUTION = re.compile(
    r"[0-9,$]*s(?P<by>[/|#,])(?:(?!(?P=by)).)*(?P=by)(?:(?!(?P=by)).)*(?P=by)g?"
)
_DELETION = re.compile(r"[0-9,$]*[dp]")


def accepted_edits(
    evidence: Evidence, is_inside: Callable[[Touch], bool], looks: Callable[[int], bool]
) -> bool:
    """Whether all that a command does is to edit files that lie inside.

    `looks` says whether the command at a position of the text needs no permission.
    """
    read, shell = evidence.reading, evidence.shell
    if read is None or shell is None or not isinstance(read.plain, Plain):
        return False
    if read.runs or not read.complete or not (shell.writes or shell.redirects):
        return False
    touched = (*shell.reads, *shell.writes, *shell.redirects)
    commands = enumerate(read.plain.commands)
    return all(map(is_inside, touched)) and all(
        _is_edit(command) or looks(position) for position, command in commands
    )


def _is_edit(command: SimpleCommand) -> bool:
    words = strictly_unwrapped(command.words)
    if not words or not assigns_harmlessly(command) or not all(word.fixed for word in words):
        return False
    name, *arguments = (word.value for word in words)
    if name == "cd":
        return is_plain_move(words)
    flags = _FLAGS.get(name)
    if flags is None:
        return False
    given = [argument for argument in arguments if argument.startswith("-")]
    return all(map(flags.fullmatch, given)) and (name != "sed" or _edits_simply(words))


def _edits_simply(words: Sequence[Word]) -> bool:
    """A script that only replaces or deletes: sed can also write files and run programs."""
    operands = [word.value for word in words[1:] if not word.value.startswith("-")]
    if not operands:
        return False
    return bool(_SUBSTITUTION.fullmatch(operands[0]) or _DELETION.fullmatch(operands[0]))
