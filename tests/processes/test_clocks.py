"""A wall clock that jumps moves no deadline: it is asked for dates and ages of files only."""

import ast
from pathlib import Path

import mcp_dispatch

PACKAGE = Path(mcp_dispatch.__file__).parent
DATES_ONLY = {
    "pipeline/hook_env.py": "the time of an entry of the journal",
    "pipeline/dispatcher.py": "the time of an entry of the journal",
    "journal/writer.py": "the day a file is named by, and the age of files",
    "results/retention.py": "the age of files",
    "results/store.py": "the age of files",
    "server/proxy.py": "the time of an entry of the journal",
    "tools/bash/background.py": "the age of files",
    "upstream/cache.py": "since when a server is known or failing",
}
WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"}


def asks_the_wall_clock(source: str) -> bool:
    """By whatever name: a reference is enough, as a clock may be handed on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in WALL_CLOCKS:
            return True
        imported = isinstance(node, ast.ImportFrom) and node.module == "time" and node.names
        if {alias.name for alias in imported or ()} & {"time", "time_ns"}:
            return True
    return False


def test_the_wall_clock_is_asked_for_dates_and_ages_only() -> None:
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if asks_the_wall_clock(path.read_text(encoding="utf-8"))
    }

    assert asking == DATES_ONLY.keys()


def test_every_way_to_ask_is_noticed() -> None:
    for source in (
        "import time\nstarted = time.time()",
        "from time import time",
        "from datetime import datetime\nnow = datetime.now",
        "import time\ndef wait(clock=time.time): ...",
    ):
        assert asks_the_wall_clock(source)
    assert not asks_the_wall_clock("import time\nstarted = time.monotonic()")
