"""What every test may ask for."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.fixture
def anyio_backend() -> str:
    """Our transports rest on asyncio's pipes; the rest of the code is plain anyio."""
    return "asyncio"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of cases written by others; tests that need it skip where it is absent."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("MCP_DISPATCH_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no folder of cases at {folder}; set MCP_DISPATCH_DATA")
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    """A workspace with nothing in it and no rules; tests add what they need."""
    return Installation(tmp_path)
