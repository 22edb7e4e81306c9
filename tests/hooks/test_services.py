"""Tests of the upstream tools, URLs and variables that hooks can use."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_dispatch.hooks.runners.mcp_tool import CallRefused, fill_template
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.hook_context import HookContext
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.outcome import ProtocolError
from mcp_dispatch.model.tools import CallContext, ToolResult
from mcp_dispatch.pipeline.hook_env import HookToolCaller
from mcp_dispatch.registry.registry import build_registry
from mcp_dispatch.settings.settings import Layer, LayerKind, Settings, load_settings
from tests.support.policies import Rules, policy
from tests.support.stand_ins import Forbids, RecordingTool

ORIGIN = Origin("settings.json", rule="s/t")


def build_context(folder: Path) -> HookContext:
    return HookContext("s-1", folder / "journal", folder, "default")


async def call_tool(
    folder: Path, rules: Rules, tool: RecordingTool | None = None, server: str = "s"
) -> JsonObject:
    registered = tool or RecordingTool("s__t", server="s", rule="mcp__s__t", validator=Forbids("y"))
    registry, active_policy = build_registry([], [registered]), policy(folder, rules)
    upstreams = HookToolCaller(lambda: registry, lambda: active_policy)
    return await upstreams.call(server, "t", {"x": 1}, ORIGIN, build_context(folder))


async def test_a_hook_calls_its_tool_without_an_allow_rule(tmp_path: Path) -> None:
    assert await call_tool(tmp_path, Rules()) == {"content": [{"type": "text", "text": "done"}]}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (Rules(deny=["mcp__s"]), "mcp__s__t is denied: "),
        (Rules(deny=["mcp__s__t(x:1)"], allow=["mcp__s"]), "mcp__s__t is denied: "),
        (Rules(ask=["mcp__s__t"]), "mcp__s__t is asked about: "),
    ],
)
async def test_a_deny_or_ask_rule_fails_the_hook(
    tmp_path: Path, rules: Rules, message: str
) -> None:
    tool = RecordingTool("s__t", server="s", rule="mcp__s__t")

    with pytest.raises(CallRefused, match=message):
        await call_tool(tmp_path, rules, tool)

    assert tool.calls == []


async def test_an_unknown_server_fails_the_hook(tmp_path: Path) -> None:
    with pytest.raises(CallRefused, match="the server 'other' offers no tool 't' at the moment"):
        await call_tool(tmp_path, Rules(), server="other")


async def test_a_built_in_tool_with_an_upstream_name_is_not_called(tmp_path: Path) -> None:
    tool = RecordingTool("mcp__s__t")
    with pytest.raises(CallRefused, match="offers no tool"):
        await call_tool(tmp_path, Rules(), tool)

    assert tool.calls == []


async def test_invalid_input_and_protocol_errors_fail_the_hook(
    tmp_path: Path,
) -> None:
    async def return_protocol_error(_: JsonObject, __: CallContext) -> ToolResult | ProtocolError:
        return ProtocolError(-1, "no")

    strict = RecordingTool("s__t", server="s", rule="mcp__s__t", validator=Forbids("x"))
    broken = RecordingTool("s__t", server="s", rule="mcp__s__t", body=return_protocol_error)

    with pytest.raises(CallRefused, match="its input does not fit the tool: x: not allowed"):
        await call_tool(tmp_path, Rules(), strict)
    with pytest.raises(CallRefused, match="protocol error"):
        await call_tool(tmp_path, Rules(), broken)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${tool_input.path}", "a ${tool_input.n} $(x)"),
        ("at ${tool_input.path}!", "at a ${tool_input.n} $(x)!"),
        ("${tool_input.n}", 3),
        ("n=${tool_input.n}", "n=3"),
        ("${tool_input.deep.list}", [1]),
        ("${tool_input}-", '{"path": "a ${tool_input.n} $(x)", "n": 3, "deep": {"list": [1]}}-'),
        ("${missing.x}", ""),
        ("[${tool_input.path.x}]", "[]"),
        ("$tool_input ${} ${a b}", "$tool_input ${} ${a b}"),
        ({"a": ["${tool_input.n}"], "b": True}, {"a": [3], "b": True}),
    ],
)
def test_the_input_template_is_filled_once_from_the_event(template: Json, expected: Json) -> None:
    document: JsonObject = {
        "tool_input": {"path": "a ${tool_input.n} $(x)", "n": 3, "deep": {"list": [1]}}
    }

    assert fill_template(template, document) == expected


def load_files(folder: Path, **files: Any) -> Settings:
    """Write one file per layer kind and load them."""
    layers: list[Layer] = []
    for kind, content in files.items():
        path = folder / f"{kind}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        layers.append(Layer(LayerKind[kind.upper()], path))
    return load_settings(layers, root=folder)


def test_url_lists_of_all_layers_are_joined(tmp_path: Path) -> None:
    settings = load_files(
        tmp_path,
        flag={"allowedHttpHookUrls": ["https://a/*"]},
        user={"allowedHttpHookUrls": ["https://b/*"], "httpHookAllowedEnvVars": ["T"]},
    )

    assert settings.hooks.http_urls == ("https://a/*", "https://b/*")
    assert settings.hooks.http_variables == ("T",)
    assert load_files(tmp_path, user={}).hooks.http_urls is None
    assert load_files(tmp_path, user={"allowedHttpHookUrls": []}).hooks.http_urls == ()


@pytest.mark.parametrize(
    ("managed", "urls"), [(["https://m/*"], ("https://m/*",)), ([], ()), ("nonsense", ())]
)
def test_other_layers_cannot_extend_a_managed_list(
    tmp_path: Path, managed: Json, urls: tuple[str, ...]
) -> None:
    settings = load_files(
        tmp_path,
        managed={"allowedHttpHookUrls": managed},
        user={"allowedHttpHookUrls": ["*"]},
    )

    assert settings.hooks.http_urls == urls


def test_a_workspace_cannot_set_the_allowed_urls(tmp_path: Path) -> None:
    settings = load_files(tmp_path, project={"allowedHttpHookUrls": ["*"]}, user={})

    assert settings.hooks.http_urls is None
    assert [problem.message for problem in settings.report.problems] == [
        "a workspace cannot set this; set it in a file of your own"
    ]
