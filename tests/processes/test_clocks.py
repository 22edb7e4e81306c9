"""The wall clock is read for dates and file ages only, so that a clock jump moves no deadline."""

import ast
from pathlib import Path

import mcp_dispatch

PACKAGE = Path(mcp_dispatch.__file__).parent
DATES_ONLY = {
    "pipeline/executor.py": "the time of a journal record",
    "pipeline/hook_env.py": "the time of a journal record",
    "pipeline/dispatcher.py": "the time of a journal record",
    "journal/writer.py": "the date in a file name, and the age of files",
    "results/retention.py": "the age of files",
    "results/store.py": "the age of files",
    "server/proxy.py": "the time of a journal record",
    "tools/bash/background.py": "the age of files",
    "upstream/cache.py": "the time since which a server is known or failing",
}
WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}


def references_wall_clock(source: str) -> bool:
    """Return whether the source mentions a wall clock, called or passed on as a function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCKS:
            return True
        imported = isinstance(node, ast.ImportFrom) and node.module == "time" and node.names
        if {alias.name for alias in imported or ()} & {"time", "time_ns"}:
            return True
    return False


def test_the_wall_clock_is_read_for_dates_and_ages_only() -> None:
    modules = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if references_wall_clock(path.read_text(encoding="utf-8"))
    }

    assert modules == DATES_ONLY.keys()


def test_every_reference_to_a_wall_clock_is_detected() -> None:
    for source in (
        "import time\nstarted = time.time()",
        "from time import time",
        "from datetime import datetime\nnow = datetime.now",
        "import time\ndef wait(clock=time.time): ...",
    ):
        assert references_wall_clock(source)
    assert not references_wall_clock("import time\nstarted = time.monotonic()")
