"""Programs that run another program, which their arguments name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcp_dispatch.shell.ast import GlobCharacter, Word

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})

SHELL_TEXT_BUILTINS = frozenset({"eval", "trap"})
"""Builtins whose arguments are a script."""

SUBSTITUTING_BUILTINS = frozenset(
    {
        *("test", "[", "printf", "read", "unset", "let", "declare", "typeset", "local", "export"),
        *("readonly", "mapfile", "readarray", "wait", "getopts", "trap", "eval"),
    }
)
"""Builtins that evaluate a substitution inside an argument, as in `test -v 'x[$(id)]'`."""

DECLARATION_BUILTINS = frozenset({"declare", "typeset", "local", "export", "readonly"})

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_FIND_EXEC_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
FIND_UNSAFE_ACTIONS = frozenset(
    {*_FIND_EXEC_ACTIONS, "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"}
)
_GIT_VALUE_OPTIONS = frozenset(
    {
        *("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"),
        *("--super-prefix", "--attr-source", "--exec-path"),
    }
)


@dataclass(frozen=True, slots=True)
class WrapperSpec:
    """The options and operands of a wrapper before the program that it runs."""

    flags: str = ""
    value_flags: str = ""
    long_flags: frozenset[str] = frozenset()
    long_value_flags: frozenset[str] = frozenset()
    operand_count: int = 0
    takes_assignments: bool = False


WRAPPERS = {
    "timeout": WrapperSpec(
        "v",
        "ks",
        frozenset({"--foreground", "--preserve-status", "--verbose"}),
        frozenset({"--kill-after", "--signal"}),
        operand_count=1,
    ),
    "time": WrapperSpec("pvaq", "fo"),
    "nice": WrapperSpec("0123456789", "n", long_value_flags=frozenset({"--adjustment"})),
    "nohup": WrapperSpec(),
    "stdbuf": WrapperSpec(
        "", "ioe", long_value_flags=frozenset({"--input", "--output", "--error"})
    ),
    "command": WrapperSpec("p"),
    "builtin": WrapperSpec(),
    "noglob": WrapperSpec(),
    "exec": WrapperSpec("cl", "a"),
    "env": WrapperSpec(
        "i0v",
        "uC",
        frozenset({"--ignore-environment", "--null", "--debug"}),
        frozenset({"--unset", "--chdir"}),
        takes_assignments=True,
    ),
    "sudo": WrapperSpec("AbEHkKnPSis", "CghpRrTtUuD", takes_assignments=True),
    "doas": WrapperSpec("ns", "uCa"),
    "xargs": WrapperSpec("0oprtx", "adEILnPs", frozenset({"--null", "--no-run-if-empty"})),
    "ionice": WrapperSpec("t", "cn"),
    "setsid": WrapperSpec("cfw", "", frozenset({"--ctty", "--fork", "--wait"})),
    "busybox": WrapperSpec(),
    "toybox": WrapperSpec(),
}

OPAQUE_WRAPPERS = frozenset(
    {
        *("watch", "flock", "chroot", "unshare", "nsenter", "chrt", "taskset", "strace", "ltrace"),
        *("parallel", "ssh", "su", "runuser", "setpriv", "systemd-run", "script", "pkexec"),
        *("fakeroot", "proot", "catchsegv", "numactl", "prlimit", "cgexec", "caffeinate"),
    }
)
"""Wrappers whose arguments are not parsed: any of their words may be the program."""


def get_program_name(words: Sequence[Word]) -> str:
    """Return the name of the program without its directory."""
    return words[0].value.rstrip("/").rpartition("/")[2] if words else ""


def is_wrapper(words: Sequence[Word]) -> bool:
    return get_program_name(words) in WRAPPERS or get_program_name(words) in OPAQUE_WRAPPERS


@dataclass(frozen=True, slots=True)
class WrappedCommand:
    """Indexes at which the command of a wrapper may begin; if `certain`, there is one index."""

    starts: tuple[int, ...]
    certain: bool


def find_wrapped_command(words: Sequence[Word]) -> WrappedCommand | None:
    """Return where the wrapped command may begin, or None if no other program is run."""
    name = get_program_name(words)
    anywhere = WrappedCommand(tuple(range(1, len(words))), certain=False)
    if name in OPAQUE_WRAPPERS:
        return anywhere
    if name == "find":
        starts = tuple(
            index + 1 for index, word in enumerate(words) if word.value in _FIND_EXEC_ACTIONS
        )
        return WrappedCommand(starts, certain=len(starts) == 1) if starts else None
    wrapper = WRAPPERS.get(name)
    if wrapper is None or _is_lookup(name, words):
        return None
    start = _find_start(wrapper, words)
    return anywhere if start is None else WrappedCommand((start,), certain=True)


def _is_lookup(name: str, words: Sequence[Word]) -> bool:
    return name == "command" and len(words) > 1 and words[1].value in ("-v", "-V")


def _find_start(wrapper: WrapperSpec, words: Sequence[Word]) -> int | None:
    """Return the index of the wrapped program, or None after an unknown option."""
    index = 1
    while index < len(words) and words[index].value.startswith("-") and words[index].value != "-":
        if words[index].value == "--":
            index += 1
            break
        word_count = _count_option_words(wrapper, words[index])
        if not word_count:
            return None
        index += word_count
    while (
        wrapper.takes_assignments and index < len(words) and _ASSIGNMENT.match(words[index].value)
    ):
        index += 1
    index += wrapper.operand_count
    # Before the program, an expansion could become options, operands or no word at all.
    return index if all(word.fixed for word in words[1:index]) else None


def _count_option_words(wrapper: WrapperSpec, word: Word) -> int:
    """Return how many words the option takes, or 0 if it is unknown."""
    text = word.value
    if text.startswith("--"):
        name, _, value = text.partition("=")
        if name in wrapper.long_value_flags:
            return 1 if value else 2
        return 1 if text in wrapper.long_flags else 0
    for index, letter in enumerate(text[1:], start=2):
        if letter in wrapper.value_flags:
            return 1 if text[index:] else 2
        if letter not in wrapper.flags:
            return 0
    return 1


def strip_git_options(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """Return `git push` for `git -C dir push`, or None if there is no option to remove."""
    if get_program_name(words) != "git" or len(words) < 2 or not words[1].value.startswith("-"):
        return None
    index = 1
    while index < len(words) and words[index].value.startswith("-"):
        index += 2 if words[index].value in _GIT_VALUE_OPTIONS else 1
    return (words[0], *words[index:])


_FROM_STANDARD_INPUT = Word("", (GlobCharacter(""),))


def unwrap_command(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command without wrappers that do not change what it does, in plain forms."""
    while len(words) > 1 and all(word.fixed for word in words[:2]):
        match words[0].value, words[1].value:
            case (("nohup" | "command" | "builtin" | "noglob" | "nice"), after) if after[:1] != "-":
                words = words[1:]
            case "xargs", after if after[:1] != "-":
                words = (*words[1:], _FROM_STANDARD_INPUT)
            case "timeout", duration if re.fullmatch(r"[0-9.]+[smhd]?", duration):
                words = words[2:]
            case "stdbuf", mode if re.fullmatch(r"-[ioe](0|L|[0-9]+[kKMG]?)", mode):
                words = (
                    (words[0], *words[2:])
                    if words[2:3] and words[2].value[:1] == "-"
                    else words[2:]
                )
            case "nice", "-n" if len(words) > 3 and re.fullmatch(r"-?[0-9]+", words[2].value):
                words = words[3:]
            case _:
                return words
    return words
