"""Fixtures and settings of all tests."""

import compileall
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import mcp_dispatch
from tests.support.client import Installation
from tests.support.depth import IS_DEEP

# No deadlines: how long an example takes depends on the machine, and properties are about results.
settings.register_profile(
    "quick",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "deep", settings.get_profile("quick"), derandomize=False, max_examples=1000
)
settings.load_profile("deep" if IS_DEEP else "quick")

LONG_MODULES = (
    "e2e/test_conformance_chained.py",
    "e2e/test_conformance.py",
    "docs/test_readme.py",
    "e2e/test_http_load.py",
    "e2e/test_published_servers.py",
)
"""They start first, so that no worker waits for one of them at the end of a parallel run."""


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package once: hundreds of tests start a server process, and the environment may
    keep each of them from writing bytecode."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(mcp_dispatch.__file__).parent, quiet=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.path.as_posix().endswith(LONG_MODULES))


@pytest.fixture
def anyio_backend() -> str:
    """The transports use asyncio's pipes; the rest of the code is plain anyio."""
    return "asyncio"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of cases written by others; skip the test if it is absent."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MCP_DISPATCH_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no folder of cases at {folder}; set MCP_DISPATCH_DATA")
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    """An installation with an empty workspace and no rules; tests add what they need."""
    return Installation(tmp_path)
