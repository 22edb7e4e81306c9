"""Programs whose arguments are a small language, and the part of it that only reads."""

import re
from collections.abc import Sequence

from mcp_dispatch.shell.arguments import ReadSpec

_ADDRESS = r"(?:[0-9]+|\$|/(?:[^/\\\n \[]|\\[^\n ]|\[\^?[^\]\\\[/^ ]+\])+/)"
_SIMPLE = rf"(?:{_ADDRESS}(?:,{_ADDRESS})?)?[pd=]"
# Without blanks, so that no part can name a file to write or a program to run. A bracket that
# contains the delimiter is excluded, because versions of sed read it differently.
_PART = r"(?:(?!{by})[^\\\n \[]|\\[^\n ]|\[\^?(?:(?!{by})[^\]\\\[^ ])+\])*"
_REPLACING = "|".join(
    rf"s{by}{_PART.format(by=by)}{by}{_PART.format(by=by)}{by}[gp0-9I]*"
    for by in ("/", "#", r"\|", ",")
)
_SED_COMMAND = rf"(?:{_SIMPLE}|(?:{_ADDRESS}(?:,{_ADDRESS})?)?(?:{_REPLACING}))"
_SED_SCRIPT = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*")
_SED_FLAGS = re.compile(r"-[nEr]+")

_PRINTF_FORMAT = re.compile(
    r"(?:[^%]|%%|%[-+ #0]*[0-9]*(?:\.[0-9]+)?[sdibquoxXfeEgGc])*", re.DOTALL
)

_TEST_OF_FILE = frozenset("-" + letter for letter in "bcdefghkLNOGprSsuwx")
_TEST_OF_TEXT = frozenset({"-n", "-z"})
_COMPARISONS = frozenset({"=", "==", "!="})
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_INTEGER = re.compile(r"-?[0-9]+")

_FIND_ALONE = frozenset(
    {
        *("-print", "-print0", "-ls", "-prune", "-empty", "-readable", "-writable", "-executable"),
        *("-depth", "-daystart", "-mount", "-xdev", "-true", "-false", "-quit", "-nouser"),
        *("-nogroup", "-a", "-and", "-o", "-or", "-not", "!", "(", ")", ",", "-noleaf"),
    }
)
_FIND_VALUED = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"),
        *("-regextype", "-type", "-xtype", "-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime"),
        *("-cmin", "-maxdepth", "-mindepth", "-user", "-group", "-uid", "-gid", "-perm", "-links"),
        *("-inum", "-printf", "-newermt", "-fstype"),
    }
)
_FIND_FILES = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
_FIND_NUMBER = re.compile(r"[-+]?[0-9]+[A-Za-z]?")

_PS_WORD = re.compile(r"-[AaefFlLjyHTNcdw]+|[axuwjlfT]+|[0-9]+|-?[0-9,]+")
_PS_VALUED = re.compile(r"-[opuUCgGt]|--(?:pid|user|sort|format|ppid)")
_PS_VALUE = re.compile(r"[A-Za-z0-9_%,.:+-]+")
_PS_LONG = re.compile(r"--(?:forest|no-headers|headers|sort=[a-z%,+-]+|pid=[0-9,]+|ppid=[0-9,]+)")

_JQ_FLAGS = re.compile(r"-[rcsneSMCajR]+|--(?:raw-output|compact-output|slurp|sort-keys|tab)")
_JQ_TEXT = re.compile(r'"[^"\\]*"')
_JQ_FILTER = re.compile(r"[\w.\[\]|,:(){}*/+=<>!? -]*")
_JQ_WORD = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_JQ_FUNCTIONS = frozenset(
    {
        *(
            "add",
            "all",
            "and",
            "any",
            "contains",
            "del",
            "elif",
            "else",
            "empty",
            "end",
            "endswith",
        ),
        *(
            "false",
            "first",
            "flatten",
            "from_entries",
            "fromjson",
            "group_by",
            "has",
            "if",
            "index",
        ),
        *("join", "keys", "last", "length", "map", "map_values", "max", "max_by", "min", "min_by"),
        *("not", "null", "or", "paths", "range", "reverse", "select", "sort", "sort_by", "split"),
        *("startswith", "test", "then", "to_entries", "tojson", "tonumber", "tostring", "true"),
        *("type", "unique", "unique_by", "values", "with_entries", "limit", "ascii_downcase"),
    }
)

_LSOF_WORD = re.compile(r"-[nPtlUaR]+|-i[46]?(?:TCP|UDP|tcp|udp)?(?::[0-9,-]+)?")


def analyze_echo(_arguments: Sequence[str]) -> ReadSpec:
    """Accept any arguments: `echo` only prints them."""
    return ReadSpec()


def analyze_sed(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept printing, deleting and replacing in the output; nothing that writes or runs."""
    flags = [argument for argument in arguments if argument.startswith("-")]
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if not operands or not all(map(_SED_FLAGS.fullmatch, flags)) or arguments[-1] in flags:
        return None
    script, *files = operands
    return ReadSpec(tuple(files)) if _SED_SCRIPT.fullmatch(script) else None


def analyze_printf(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept a format without `%n`, which assigns a variable, and no option."""
    if not arguments or arguments[0].startswith("-"):
        return None
    return ReadSpec() if _PRINTF_FORMAT.fullmatch(arguments[0]) else None


def analyze_bracket(arguments: Sequence[str]) -> ReadSpec | None:
    return analyze_test(arguments[:-1]) if arguments[-1:] == ["]"] else None


def analyze_test(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept one simple test; `-v` and similar operators evaluate their operand."""
    match list(arguments[1:] if arguments[:1] == ["!"] else arguments):
        case [operator, path] if operator in _TEST_OF_FILE:
            return ReadSpec((path,)) if path else ReadSpec()
        case [operator, _] if operator in _TEST_OF_TEXT:
            return ReadSpec()
        case [_, operator, _] if operator in _COMPARISONS:
            return ReadSpec()
        case [left, operator, right] if operator in _NUMERIC:
            numbers = _INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)
            return ReadSpec() if numbers else None
        case _:
            return None


def analyze_find(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept tests and printing; nothing that runs, deletes, writes a file or follows links."""
    paths: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in _FIND_ALONE:
            continue
        if argument in _FIND_VALUED or argument in _FIND_FILES:
            value = next(rest, None)
            if value is None or _is_find_action(value):
                return None
            if argument in _FIND_FILES:
                paths.append(value)
        elif argument.startswith("-") and argument != "-P":
            return None
        elif argument != "-P":
            paths.append(argument)
    return ReadSpec(tuple(paths), reads_cwd=True)


def _is_find_action(value: str) -> bool:
    return value.startswith("-") and not _FIND_NUMBER.fullmatch(value)


def analyze_ps(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept no `e` without a dash, which shows the environment of every process."""
    rest = iter(arguments)
    for argument in rest:
        if _PS_VALUED.fullmatch(argument):
            value = next(rest, "")
            if value.startswith("-") or not _PS_VALUE.fullmatch(value):
                return None
        elif not (_PS_WORD.fullmatch(argument) or _PS_LONG.fullmatch(argument)):
            return None
    return ReadSpec()


def analyze_jq(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept a filter of paths and functions that read only the document."""
    flags = [argument for argument in arguments if argument.startswith("-")]
    operands = [argument for argument in arguments if not argument.startswith("-")]
    if not operands or not all(map(_JQ_FLAGS.fullmatch, flags)):
        return None
    filter_text = _JQ_TEXT.sub("", operands[0])
    known = set(_JQ_WORD.findall(filter_text)) <= _JQ_FUNCTIONS
    return ReadSpec(tuple(operands[1:])) if known and _JQ_FILTER.fullmatch(filter_text) else None


def analyze_lsof(arguments: Sequence[str]) -> ReadSpec | None:
    """Accept queries for open files and ports; no option that keeps a cache or repeats."""
    rest = iter(arguments)
    for argument in rest:
        if argument in ("-p", "-u", "-c"):
            value = next(rest, "")
            if value.startswith("-") or not _PS_VALUE.fullmatch(value):
                return None
        elif not _LSOF_WORD.fullmatch(argument):
            return None
    return ReadSpec()
