"""Limits on size, names and dependencies that keep the package readable."""

import ast
import json
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import mcp_dispatch
from tests.support.client import Installation
from tests.support.paths import ROOT, SUPPORT
from tests.support.source import (
    PACKAGE,
    count_lines,
    has_counted_name,
    has_verb_first,
    list_decorator_names,
    list_imported_modules,
    load_package_modules,
    walk_functions,
)

MAX_MODULE_LINES = 350
MAX_FOLDER_MODULES = 16
MIN_LONE_MODULE_LINES = 40
MAX_PARAMETERS = 7
MAX_CALLABLE_FIELDS = 2
MIN_VERB_PERCENT = 75
MAX_READ_FILES = 55
MAX_READ_PACKAGES = 14

FORMER_NAMES = (
    *("Errand", "Dossier", "Shelf", "Hearing", "Bench", "Standing", "Desk", "Questioning", "Rests"),
    *("Hop", "Respondent", "Backstage", "Passage", "Offering", "Surroundings"),
)


def test_the_dispatcher_is_one_page() -> None:
    module = "pipeline/dispatcher.py"
    runs = [node for node in walk_functions(load_package_modules()[module]) if node.name == "_run"]

    assert count_lines(module) <= 120
    assert [(node.end_lineno or 0) - node.lineno + 1 <= 30 for node in runs] == [True]


def test_no_module_is_longer_than_its_limit() -> None:
    lengths = {module: count_lines(module) for module in load_package_modules()}

    assert {name: lines for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == {}


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(
        str(Path(module).parent)
        for module in load_package_modules()
        if not module.endswith("__init__.py")
    )

    assert {name: count for name, count in counts.items() if count > MAX_FOLDER_MODULES} == {}


def test_nothing_but_public_modules_lies_at_the_top_of_the_package() -> None:
    top = {module for module in load_package_modules() if "/" not in module}

    assert top == {"__init__.py", "__main__.py", "blocks.py"}


def test_a_short_module_has_more_than_one_importer() -> None:
    names = {module: _dotted(module) for module in load_package_modules()}
    importers: Counter[str] = Counter()
    for module, tree in load_package_modules().items():
        importers.update((list_imported_modules(tree) & set(names.values())) - {names[module]})

    short = [
        module
        for module, name in names.items()
        if importers[name] == 1
        and count_lines(module) < MIN_LONE_MODULE_LINES
        and not module.endswith("__init__.py")
        and not module.startswith(("pipeline/stages/", "cli/"))
    ]

    assert short == []


def test_a_public_class_name_means_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module, tree in load_package_modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)

    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_functions_start_with_verbs() -> None:
    names = [
        node.name
        for tree in load_package_modules().values()
        for node in walk_functions(tree)
        if has_counted_name(node)
    ]
    verbs = [name for name in names if has_verb_first(name)]

    assert 100 * len(verbs) / len(names) >= MIN_VERB_PERCENT


def test_no_former_name_is_left_in_the_package() -> None:
    pattern = re.compile(rf"\b({'|'.join(FORMER_NAMES)})\b")
    found = {
        module: pattern.findall((PACKAGE / module).read_text(encoding="utf-8"))
        for module in load_package_modules()
    }

    assert {module: words for module, words in found.items() if words} == {}


def test_no_call_unpacks_a_tuple_literal() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module, tree in load_package_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and any(isinstance(a, ast.Starred) and isinstance(a.value, ast.Tuple) for a in node.args)
    ]

    assert found == []


def test_no_constructor_has_too_many_parameters() -> None:
    found = {
        f"{module}:{node.lineno}": count
        for module, tree in load_package_modules().items()
        for node in walk_functions(tree)
        if node.name == "__init__"
        and (count := len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) - 1)
        > MAX_PARAMETERS
    }

    assert found == {}


def test_no_dataclass_is_a_bag_of_callables() -> None:
    found = {
        f"{module}:{node.lineno} {node.name}": count
        for module, tree in load_package_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and "dataclass" in list_decorator_names(node)
        and (count := sum(map(_is_callable_field, node.body))) > MAX_CALLABLE_FIELDS
    }

    assert found == {}


def test_no_test_module_imports_another() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "tests").rglob("*.py")
        for name in list_imported_modules(ast.parse(path.read_bytes()))
        if name.startswith("tests.") and ".test_" in name
    ]

    assert found == []


def test_tests_lie_in_the_packages_of_what_they_test() -> None:
    packages = {path.parent for path in PACKAGE.rglob("*.py")}
    others = {Path("e2e"), Path("docs"), Path()}
    tests = ROOT / "tests"

    found = [
        str(folder)
        for folder in {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
        if PACKAGE / folder not in packages and folder not in others
    ]

    assert found == []


def test_importing_the_package_imports_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import mcp_dispatch; "
        "names = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(names - sys.stdlib_module_names))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "['mcp_dispatch']\n"


def test_every_public_name_can_be_imported() -> None:
    assert len(mcp_dispatch.__all__) == len(set(mcp_dispatch.__all__))
    assert all(getattr(mcp_dispatch, name) is not None for name in mcp_dispatch.__all__)


def test_the_examples_import_only_the_public_api() -> None:
    public = {"mcp_dispatch", "mcp_dispatch.blocks"}
    public |= {f"mcp_dispatch.{name}" for name in mcp_dispatch.__all__}

    for example in (ROOT / "docs" / "examples").glob("*.py"):
        imported = list_imported_modules(ast.parse(example.read_bytes()))
        ours = {name for name in imported if name.startswith("mcp_dispatch")}
        assert {name for name in ours if not _is_public(name, public)} == set(), example


def test_the_architecture_page_names_existing_files_and_a_short_glossary() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page))
    glossary = page.partition("## Glossary")[2]

    missing = [
        name for name in named if not any((base / name).exists() for base in (ROOT, PACKAGE))
    ]
    assert missing == []
    assert 0 < len(re.findall(r"^\| (?!word|---)", glossary, re.MULTILINE)) <= 25


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGUSR1")
def test_one_read_passes_through_few_files(installed: Installation) -> None:
    file = installed.write_file("notes.txt", "one\ntwo\n")
    calls = [
        {"method": "tools/call", "params": {"name": "Read", "arguments": {"file_path": str(file)}}}
        for _ in range(4)
    ]
    first = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tracer", "version": "1"},
    }
    command = [sys.executable, str(SUPPORT / "traced_server.py"), *installed.command[3:]]
    server = TracedServer(command, {**installed.environ, "PYTHONPATH": str(ROOT)})
    try:
        server.request({"method": "initialize", "params": first})
        server.notify({"method": "notifications/initialized"})
        server.request({"method": "tools/list"})
        server.request(calls[0])  # the first call also opens the session and the journal
        # Work in the background does not happen during every one of several calls.
        recorded = [server.record(call) for call in calls[1:]]
    finally:
        server.close()

    files = recorded[0].intersection(*recorded[1:])
    packages = {name.partition("/")[0] for name in files}
    assert "tools/files/read.py" in files
    assert len(files) <= MAX_READ_FILES, _listed(files)
    assert len(packages) <= MAX_READ_PACKAGES, _listed(packages)


class TracedServer:
    """A server process that records which files run while it answers a request."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self._last_id = 0

    def notify(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def request(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdout is not None
        self._last_id += 1
        self.notify({"id": self._last_id, **message})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._last_id:
                assert "result" in answer, answer
                return answer
        raise AssertionError("the server ended")

    def record(self, message: dict[str, Any]) -> set[str]:
        self._process.send_signal(signal.SIGUSR1)
        self._wait_for("recording")
        self.request(message)
        self._process.send_signal(signal.SIGUSR2)
        return set(json.loads(self._wait_for("recorded")))

    def close(self) -> None:
        self._process.communicate(timeout=30)

    def _wait_for(self, word: str) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            first, _, rest = line.partition(" ")
            if first.strip() == word:
                return rest
        raise AssertionError("the server ended")


def _dotted(module: str) -> str:
    parts = ("mcp_dispatch", *Path(module).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_callable_field(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and "Callable" in ast.unparse(node.annotation)


def _is_public(name: str, public: set[str]) -> bool:
    return name in public or name.startswith("mcp_dispatch.blocks.")


def _listed(names: Iterable[str]) -> str:
    return "\n".join(sorted(names))
