"""The names that `mcp_dispatch` exports, and the modules that importing it loads."""

import ast
import subprocess
import sys

import mcp_dispatch
from tests.support.paths import ROOT

EXPORTED = [
    "Approved",
    "AskCallback",
    "CallState",
    "ConfigError",
    "Declined",
    "Dispatch",
    "MCPDispatchError",
    "OnProgress",
    "OnState",
    "PermissionMode",
    "Question",
    "StartError",
    "StreamingExecutor",
    "__version__",
    "escape_control_characters",
    "open",
]


def test_the_package_exports_exactly_the_listed_names() -> None:
    assert mcp_dispatch.__all__ == EXPORTED


def test_every_exported_name_exists() -> None:
    assert [name for name in EXPORTED if getattr(mcp_dispatch, name, None) is None] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(mcp_dispatch, "close")


def test_importing_the_package_imports_only_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import mcp_dispatch; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()

    assert set(loaded) - sys.stdlib_module_names == {"mcp_dispatch"}


def test_examples_import_only_the_top_level_package() -> None:
    imported = [
        name
        for file in sorted((ROOT / "docs" / "examples").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for name in _list_imports(node)
        if name.startswith("mcp_dispatch")
    ]

    assert set(imported) == {"mcp_dispatch"}


def _list_imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
