"""Checks a parsed script against the bash grammar of tree-sitter."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from mcp_dispatch.shell.script_parser import ParsedScript

if TYPE_CHECKING:
    from tree_sitter import Language, Node

_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_TEST_GROUPS = frozenset(
    {"unary_expression", "binary_expression", "parenthesized_expression", "test_command"}
)


@cache
def _load_language() -> "Language":
    # Imported here: it costs 30 ms, and many processes never parse a command.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parse_root(text: str) -> "Node":
    """Parse with a new parser: parsers are cheap and must not be shared by threads."""
    from tree_sitter import Parser

    return Parser(_load_language()).parse(text.encode()).root_node


def matches_grammar(text: str, script: ParsedScript) -> bool:
    """Return whether the grammar finds exactly the commands and redirects of `script`."""
    root = _parse_root(text)
    if root.has_error:
        return False
    found = _TreeCollector(root)
    same_commands = found.commands == Counter(script.spellings)
    return same_commands and found.redirects == Counter(script.redirects)


class _TreeCollector:
    """Commands and redirects under child node, found with a stack because trees may be deep."""

    def __init__(self, root: "Node") -> None:
        self.commands: Counter[tuple[str, ...]] = Counter()
        self.redirects: Counter[tuple[str, str, str]] = Counter()
        stack: list[Node] = [root]
        while stack:
            node = stack.pop()
            self._visit(node)
            stack.extend(node.children)

    def _visit(self, node: "Node") -> None:
        kind = node.type
        if kind in _COMMANDS:
            self._add_command(_list_words(node))
        elif kind == "test_command":
            self._add_command(_list_test_words(node))
        elif kind == "variable_assignment" and _is_standalone(node):
            self._add_command([_get_text(node)])
        elif kind == "variable_assignments":
            self._add_command([_get_text(child) for child in node.children])
        elif kind == "for_statement":
            name = node.child_by_field_name("variable")
            values = node.children_by_field_name("value")
            self._add_command(
                ["for", *([_get_text(name)] if name else []), *map(_get_text, values)]
            )
        elif kind in _REDIRECTS:
            self.redirects[_to_redirect(node)] += 1

    def _add_command(self, words: list[str]) -> None:
        """Add a command without `time`, which the grammar takes for the name of a command."""
        if words[:1] == ["time"]:
            words = words[2:] if words[1:2] == ["-p"] else words[1:]
        self.commands[tuple(words)] += 1


def _get_text(node: "Node") -> str:
    """Return the text of a node without the blank that some nodes begin with."""
    return (node.text or b"").decode(errors="replace").lstrip(" \t")


def _list_words(node: "Node") -> list[str]:
    return [_get_text(child) for child in node.children if child.type not in _REDIRECTS]


def _list_test_words(node: "Node") -> list[str]:
    return list(_iter_leaves(node))


def _iter_leaves(node: "Node") -> Iterator[str]:
    stack = [node]
    while stack:
        child = stack.pop()
        if child.type in _TEST_GROUPS:
            stack.extend(reversed(child.children))
        else:
            yield _get_text(child)


def _is_standalone(node: "Node") -> bool:
    parent = node.parent
    return parent is not None and parent.type not in (*_COMMANDS, "variable_assignments")


def _to_redirect(node: "Node") -> tuple[str, str, str]:
    """Return the descriptor, the operator and the target of a redirect."""
    parts = [_get_text(child) for child in node.children if child.type != "file_descriptor"]
    descriptor = "".join(
        _get_text(child) for child in node.children if child.type == "file_descriptor"
    )
    operator = parts[0] if parts else ""
    if node.type == "heredoc_redirect":
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        delimiter = _get_text(start).strip("'\"") if start else ""
        return descriptor, operator.rstrip("-"), delimiter
    return descriptor, operator, " ".join(parts[1:])
