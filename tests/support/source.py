"""The source of the package, parsed once, for tests about its structure."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mcp_dispatch
from tests.support.paths import SUPPORT

PACKAGE = Path(mcp_dispatch.__file__).parent

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_USUAL_PREFIXES = frozenset(
    {
        *("is", "has", "can", "may", "must", "should", "needs", "allows", "matches", "covers"),
        *("contains", "accepts", "supports", "to", "from", "as", "on", "with", "default", "main"),
        *("aclose", "aenter", "aexit", "asend", "areceive", "async", "sync", "iter", "max", "min"),
    }
)
_UNCOUNTED_DECORATORS = frozenset({"property", "cached_property", "setter", "command", "fixture"})


@cache
def load_package_modules() -> dict[str, ast.Module]:
    """Return every module of the package by its path relative to the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_bytes())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def count_lines(module: str) -> int:
    return len((PACKAGE / module).read_text(encoding="utf-8").splitlines())


def walk_functions(tree: ast.Module) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            yield node


def has_verb_first(name: str) -> bool:
    word = name.strip("_").split("_")[0].lower()
    return word in _load_verbs() or word in _USUAL_PREFIXES


def has_counted_name(node: FunctionNode) -> bool:
    """Properties, commands and fixtures are nouns, and dunder methods are named by Python."""
    return not node.name.startswith("__") and not list_decorator_names(node) & _UNCOUNTED_DECORATORS


def list_decorator_names(node: FunctionNode | ast.ClassDef) -> set[str]:
    calls = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return {each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in calls}


def list_imported_modules(tree: ast.Module) -> set[str]:
    """Return the dotted names of everything that a module imports, at any depth of nesting."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@cache
def _load_verbs() -> frozenset[str]:
    return frozenset((SUPPORT / "verbs.txt").read_text(encoding="utf-8").split())
