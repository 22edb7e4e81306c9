"""A call that skips a stage is a type error; these tests run the type checker."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

HEADER = """
from mcp_dispatch.model.calls import CheckedCall, ReviewedCall, ValidCall
from mcp_dispatch.model.tools import CallContext
from mcp_dispatch.pipeline.call_env import CallEnv
from mcp_dispatch.pipeline.stages.authorize import authorize
from mcp_dispatch.pipeline.stages.check import check
from mcp_dispatch.pipeline.stages.execute import execute


async def run_stages(
    valid: ValidCall, checked: CheckedCall, reviewed: ReviewedCall, env: CallEnv, c: CallContext
) -> None:
    """


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("await execute(reviewed, env)", '"ReviewedCall" is not assignable to "PermittedCall"'),
        ("await authorize(checked, env)", '"CheckedCall" is not assignable to "ReviewedCall"'),
        ("await check(reviewed, c)", '"ReviewedCall" is not assignable to "ValidCall"'),
        (
            "await execute(await authorize(reviewed, env), env)",
            '"Suspended" is not assignable to "PermittedCall"',
        ),
        ("await authorize(reviewed, env)", None),
    ],
)
def test_code_that_skips_a_stage_does_not_type_check(
    tmp_path: Path, line: str, problem: str | None
) -> None:
    (tmp_path / "stages.py").write_text(HEADER + line + "\n", encoding="utf-8")
    config = {"include": ["stages.py"], "extraPaths": [str(ROOT)], "typeCheckingMode": "basic"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )

    assert (problem or "0 errors") in done.stdout
