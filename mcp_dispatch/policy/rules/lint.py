"""Advice about rules that may not mean what their author expects."""

import re
from collections.abc import Collection
from difflib import get_close_matches

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.policy.commands.pattern import ANYTHING, CommandPattern, Wildcard
from mcp_dispatch.policy.commands.wrappers import OPAQUE_WRAPPERS, WRAPPERS
from mcp_dispatch.policy.known_tools import BUILT_IN_TOOLS, CLAUDE_CODE_TOOLS, PATH_RULE_TOOLS
from mcp_dispatch.policy.paths.pattern import Anchor, PathPattern, is_invalid_gitignore
from mcp_dispatch.settings.settings import RuleText

_TOP_DIRECTORIES = frozenset(
    {
        *("Users", "home", "etc", "tmp", "var", "usr", "opt", "root", "private", "mnt", "srv"),
        *("Library", "Volumes", "media", "proc", "dev"),
    }
)
_WINDOWS_DRIVE = re.compile(r"/{0,2}[A-Za-z]:[\\/]")
_NOT_AN_ESCAPE = re.compile(r"\\[A-Za-z0-9_.-]")


def check_tool_name(name: str) -> str | None:
    """Report a name that no built-in tool has, or that no server can have."""
    if name.startswith("mcp__"):
        valid = re.sub(r"[^A-Za-z0-9_*-]", "_", name)
        hint = f"names of servers and tools have '_' in its place; write {valid}"
        return None if valid == name else f"{name} contains '.'; {hint}"
    if name in BUILT_IN_TOOLS | CLAUDE_CODE_TOOLS or "_" in name or "*" in name:
        return None
    folded = {known.casefold(): known for known in BUILT_IN_TOOLS}
    nearest = folded.get(name.casefold()) or next(
        iter(get_close_matches(name, BUILT_IN_TOOLS, 1)), None
    )
    hint = f"; names are case-sensitive, did you mean {nearest}?" if nearest else ""
    return f"no built-in tool is named {name}{hint}"


def check_server_name(server: str, known: Collection[str]) -> str | None:
    """Report an unknown server if the name of a known server is nearly the same."""
    if server in known:
        return None
    alike = {_normalize_server_name(name): name for name in known}
    nearest = alike.get(_normalize_server_name(server))
    return f"no server is named {server}; did you mean {nearest}?" if nearest else None


def check_server_tools(server: str, tools: Wildcard, known: Collection[str]) -> str | None:
    """Report a tool that a server lacks if it has one whose name differs only by case.

    `known` are the rule names of its tools, without the server's name.
    """
    if any(map(tools.matches, known)):
        return None
    folded = Wildcard.parse(str(tools).casefold())
    nearest = min((name for name in known if folded.matches(name.casefold())), default=None)
    if nearest is None:
        return None
    return f"{server} has no tool {tools}; names are case-sensitive, did you mean {nearest}?"


def _normalize_server_name(server: str) -> str:
    return server.casefold().replace("-", "_")


def suggest_primary_rule(name: str, value: str) -> str:
    if name == "WebFetch":
        return "WebFetch(domain:host)"
    return f"{PATH_RULE_TOOLS.get(name, name)}({value})"


def check_command_pattern(pattern: CommandPattern) -> str | None:
    """Report an allow pattern that covers more or less than it seems to."""
    words = list(pattern.words[pattern.assignment_count :])
    if not words:
        return None
    if ANYTHING in words[0] and (len(words) > 1 or words[0][:1] == ANYTHING):
        return "a '*' in place of the program allows every program; name it in full"
    if len(words) > 2 and words[1] == ANYTHING:
        return "a '*' before the subcommand allows every subcommand; name it in full"
    if (
        not pattern.allows_more_words
        or len(words) > 1
        or words[0] not in {*WRAPPERS, *OPAQUE_WRAPPERS}
    ):
        return None
    example = "npm test" if words[0] in OPAQUE_WRAPPERS else "npm test:*"
    return f"{words[0]} runs a program that the rule must name, as in Bash({words[0]} {example})"


def check_path_pattern(specifier: str, pattern: PathPattern, rule_text: RuleText) -> str | None:
    if _WINDOWS_DRIVE.match(specifier) or _NOT_AN_ESCAPE.search(specifier):
        return (
            "it looks like a path of Windows; write / between directories and // before the first"
        )
    if not pattern.narrow.strip("/"):
        return f"write {specifier.rstrip('/')}/** for everything in that directory"
    first = pattern.narrow.strip("/").partition("/")[0]
    if pattern.base.anchor is Anchor.SOURCE and first in _TOP_DIRECTORIES:
        meant = f"{str(rule_text.anchor).rstrip('/')}{specifier}"
        return f"it means {meant}; write /{specifier} for the absolute path"
    if "[" in specifier and is_invalid_gitignore(pattern.narrow):
        if rule_text.effect is Effect.ALLOW:
            return "the '[' is not closed, so it allows nothing; write \\[ for the character"
        return "the '[' is not closed, so it guards the path as it is spelled; write \\[ instead"
    return None
