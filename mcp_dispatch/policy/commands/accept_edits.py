"""Commands that the mode acceptEdits allows as edits: a few programs with plain options."""

import re
from collections.abc import Callable, Sequence

from mcp_dispatch.policy.commands.file_access import FileAccess
from mcp_dispatch.policy.commands.wrappers import unwrap_command
from mcp_dispatch.policy.facts import CallFacts
from mcp_dispatch.policy.rules.allow import has_harmless_assignments, is_simple_cd
from mcp_dispatch.shell.ast import PlainScript, SimpleCommand, Word

_SAFE_FLAGS = {
    "mkdir": re.compile(r"-[pv]+|--parents|--verbose"),
    "touch": re.compile(r"-[acm]+"),
    "rm": re.compile(r"-[rRfdvi]+|--recursive|--force|--verbose"),
    "rmdir": re.compile(r"-v|--verbose"),
    "mv": re.compile(r"-[fnvi]+"),
    # No recursive copy: the tree may contain a file that is protected at the target.
    "cp": re.compile(r"-[fnvip]+"),
    "sed": re.compile(r"-[inEr]+"),
}
_SUBSTITUTION = re.compile(
    r"[0-9,$]*s(?P<by>[/|#,])(?:(?!(?P=by)).)*(?P=by)(?:(?!(?P=by)).)*(?P=by)g?"
)
_DELETION = re.compile(r"[0-9,$]*[dp]")


def is_accepted_edit(
    facts: CallFacts, is_inside: Callable[[FileAccess], bool], can_read: Callable[[int], bool]
) -> bool:
    """Return whether a command only edits files in the working directories.

    `can_read` decides whether the command at a position of the script only reads.
    """
    command_line, accesses = facts.parsed_command, facts.shell_access
    if command_line is None or accesses is None or not isinstance(command_line.script, PlainScript):
        return False
    if (
        command_line.token_runs
        or not command_line.complete
        or not (accesses.writes or accesses.redirects)
    ):
        return False
    accessed = (*accesses.reads, *accesses.writes, *accesses.redirects)
    commands = enumerate(command_line.script.commands)
    return all(map(is_inside, accessed)) and all(
        _is_edit(command) or can_read(position) for position, command in commands
    )


def _is_edit(command: SimpleCommand) -> bool:
    words = unwrap_command(command.words)
    if not words or not has_harmless_assignments(command) or not all(word.fixed for word in words):
        return False
    name, *arguments = (word.value for word in words)
    if name == "cd":
        return is_simple_cd(words)
    flags = _SAFE_FLAGS.get(name)
    if flags is None:
        return False
    options = [argument for argument in arguments if argument.startswith("-")]
    return all(map(flags.fullmatch, options)) and (name != "sed" or _is_simple_sed_edit(words))


def _is_simple_sed_edit(words: Sequence[Word]) -> bool:
    """Accept a script that replaces or deletes; sed can also write files and run programs."""
    operands = [word.value for word in words[1:] if not word.value.startswith("-")]
    if not operands:
        return False
    return bool(_SUBSTITUTION.fullmatch(operands[0]) or _DELETION.fullmatch(operands[0]))
