"""The second reader: tree-sitter's bash grammar, asked whether it finds the same words."""

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
    # Imported here: it costs 30 ms, and most of what uses rules never reads a command.
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _parse_root(text: str) -> "Node":
    """A parser is not to be shared by threads, and costs next to nothing."""
    from tree_sitter import Parser

    return Parser(_load_language()).parse(text.encode()).root_node


def matches_grammar(text: str, script: ParsedScript) -> bool:
    """Whether the grammar finds the commands and redirects of `script`, letter for letter."""
    root = _parse_root(text)
    if root.has_error:
        return False
    survey = _TreeCollector(root)
    return survey.commands == Counter(script.spellings) and survey.redirects == Counter(
        script.redirects
    )


class _TreeCollector:
    """Everything of interest under one node, walked with a stack: trees may be deep."""

    def __init__(self, root: "Node") -> None:
        self.commands: Counter[tuple[str, ...]] = Counter()
        self.redirects: Counter[tuple[str, str, str]] = Counter()
        left: list[Node] = [root]
        while left:
            node = left.pop()
            self._visit(node)
            left.extend(node.children)

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
        """Reserved words may stand where the grammar sees a command's name."""
        if words[:1] == ["time"]:
            words = words[2:] if words[1:2] == ["-p"] else words[1:]
        self.commands[tuple(words)] += 1


def _get_text(node: "Node") -> str:
    """Some nodes begin with the blank before them."""
    return (node.text or b"").decode(errors="replace").lstrip(" \t")


def _list_words(node: "Node") -> list[str]:
    return [_get_text(child) for child in node.children if child.type not in _REDIRECTS]


def _list_test_words(node: "Node") -> list[str]:
    return list(_iter_leaves(node))


def _iter_leaves(node: "Node") -> Iterator[str]:
    left = [node]
    while left:
        one = left.pop()
        if one.type in _TEST_GROUPS:
            left.extend(reversed(one.children))
        else:
            yield _get_text(one)


def _is_standalone(node: "Node") -> bool:
    parent = node.parent
    return parent is not None and parent.type not in (*_COMMANDS, "variable_assignments")


def _to_redirect(node: "Node") -> tuple[str, str, str]:
    """Descriptor, operator and all that the grammar takes for its target."""
    parts = [_get_text(child) for child in node.children if child.type != "file_descriptor"]
    descriptor = "".join(_get_text(one) for one in node.children if one.type == "file_descriptor")
    operator = parts[0] if parts else ""
    if node.type == "heredoc_redirect":
        start = next((one for one in node.children if one.type == "heredoc_start"), None)
        delimiter = _get_text(start).strip("'\"") if start else ""
        return descriptor, operator.rstrip("-"), delimiter
    return descriptor, operator, " ".join(parts[1:])
