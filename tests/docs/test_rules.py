"""The examples of rules in the documentation are rule tests, and they pass."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.fs.workspace import Workspace
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.rules.examples import run_rule_tests
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import Layer, LayerKind, load_settings
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


def examples(page: str) -> list[dict[str, Any]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.+?)\n```", text, re.DOTALL)]
    return [block for block in blocks if "permissions" in block]


@pytest.mark.parametrize(
    ("page", "number"),
    [(page, at) for page in ("rules.md", "explain.md") for at in range(len(examples(page)))],
)
def test_every_example_of_the_documentation_holds(tmp_path: Path, page: str, number: int):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(examples(page)[number]), encoding="utf-8")
    root = tmp_path / "w"
    root.mkdir()
    settings = load_settings([Layer(LayerKind.FLAG, file)])
    policy = Policy(settings, [root], [tmp_path / "own"], PermissionMode.DEFAULT)

    failed = run_rule_tests(settings.rules.tests, policy, Workspace(root))

    assert settings.report.problems == ()
    assert policy.problems == ()
    assert settings.rules.tests
    assert [each.reason for each in failed] == []
