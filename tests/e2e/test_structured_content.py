"""Structured content and output schemas with real validating clients, in both eras."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_dispatch.model.json import Json, JsonObject
from tests.support.client import ERAS, Era, Installation
from tests.support.paths import UPSTREAMS
from tests.support.typescript_client import CLIENTS, TypeScript

SCRIPTED = str(UPSTREAMS / "scripted.py")
MARKER = "mcp-dispatch/result"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"

each_era = pytest.mark.parametrize("era", ERAS)
each_typescript = pytest.mark.parametrize("typescript", CLIENTS)

ROW: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
PLAIN: JsonObject = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": ROW}},
    "required": ["rows"],
}
SCHEMAS: dict[str, JsonObject] = {
    "plain": PLAIN,
    "closed": {**PLAIN, "additionalProperties": False},
    "defs": {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "required": ["rows"],
        "additionalProperties": False,
        "$defs": {"row": ROW},
    },
    "self": {
        "type": "object",
        "properties": {"rows": {"type": "array"}, "next": {"$ref": "#"}},
        "required": ["rows"],
        "additionalProperties": False,
    },
    "id": {
        "$id": "https://example.com/rows.json",
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "required": ["rows"],
        "$defs": {"row": ROW},
    },
    "nested_id": {
        "type": "object",
        "properties": {"rows": {"$ref": "https://example.com/list.json"}},
        "required": ["rows"],
        "$defs": {
            "list": {
                "$id": "https://example.com/list.json",
                "type": "array",
                "items": {"$ref": "#/$defs/row"},
                "$defs": {"row": ROW},
            }
        },
    },
    "anchor": {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#row"}}},
        "required": ["rows"],
        "$defs": {"row": {**ROW, "$anchor": "row"}},
    },
    "draft7": {
        "$schema": DRAFT_7,
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/definitions/row"}}},
        "required": ["rows"],
        "additionalProperties": False,
        "definitions": {"row": ROW},
    },
    "draft2020": {
        "$schema": DRAFT_2020,
        "type": "object",
        "properties": {"rows": {"type": "array", "prefixItems": [{"$ref": "#/$defs/row"}]}},
        "required": ["rows"],
        "unevaluatedProperties": False,
        "$defs": {"row": ROW},
    },
    "names": {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"$ref": "#/properties/default"}},
            "default": ROW,
            "enum": {"enum": [{"$ref": "#/nowhere"}], "default": {"$ref": "#/nowhere"}},
            "$ref": {"type": "string"},
        },
        "required": ["rows"],
        "additionalProperties": False,
    },
    "unknown_draft": {"$schema": "https://example.com/my-schema", **PLAIN},
}
BROKEN: dict[str, Json] = {
    "remote": {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
    "dangling": {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
    "pattern": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    "flags": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?i)a"}}},
    "python_only": {"type": "object", "patternProperties": {"\\Aa\\Z": {}}},
    "javascript_only": {"type": "object", "properties": {"a": {"pattern": "^\\p{L}+$"}}},
    "type": {"type": "object", "properties": {"a": {"type": "thing"}}},
    "draft4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
    },
    "draft4_unsaid": {
        "type": "object",
        "properties": {"a": {"type": "number", "minimum": 0, "exclusiveMinimum": True}},
    },
    "typeless": {"properties": {"rows": {}}},
    "null": None,
    "true": True,
    "text": "object",
    "endless": {"type": "object", "allOf": [{"$ref": "#"}]},
}


def rows(count: int) -> JsonObject:
    return {"rows": [{"n": number} for number in range(count)]}


def result(structure: Json, text: str | None = None) -> JsonObject:
    told = json.dumps(structure) if text is None else text
    return {"content": [{"type": "text", "text": told}], "structuredContent": structure}


def tool(schema: Json, **results: JsonObject) -> JsonObject:
    definition: JsonObject = {"inputSchema": {"type": "object"}, "outputSchema": schema}
    return {"definition": definition, "results": {**results}}


def serving(installed: Installation, **tools: JsonObject) -> Installation:
    script = installed.folder / "script.json"
    script.write_text(json.dumps(tools), encoding="utf-8")
    installed.add_rules(allow=["mcp__up"])
    return installed.add_upstream("up", sys.executable, "-S", "-E", SCRIPTED, str(script))


def every_schema() -> dict[str, JsonObject]:
    return {
        name: tool(schema, small=result(rows(3)), large=result(rows(4_000)))
        for name, schema in SCHEMAS.items()
    }


def check_reference(structure: Any, installed: Installation, whole: JsonObject) -> None:
    reference = structure[MARKER]
    kept = Path(reference["path"])
    assert kept.parent == installed.state / "results"
    assert json.loads(kept.read_text(encoding="utf-8")) == whole
    assert reference["link"] == f"dispatch://results/{kept.stem}"
    assert reference["size"] == kept.stat().st_size
    assert '"rows":' in reference["preview"]


@each_era
async def test_the_python_client_accepts_every_schema_and_both_shapes(
    installed: Installation, era: Era
) -> None:
    serving(installed, **every_schema())
    results: dict[str, tuple[Any, Any]] = {}

    async with installed.open_client(era) as client:
        await client.list_tools()
        for name in SCHEMAS:
            with anyio.fail_after(30):
                small = await client.call_tool(f"up__{name}", {})
                large = await client.call_tool(f"up__{name}", {"case": "large"})
            results[name] = (small.structured_content, large.structured_content)

    for small, large in results.values():
        assert small == rows(3)
        check_reference(large, installed, rows(4_000))


@each_typescript
def test_the_typescript_clients_accept_every_schema_and_both_shapes(
    installed: Installation, typescript: TypeScript
) -> None:
    serving(installed, **every_schema())
    calls: list[dict[str, Json]] = [
        {"do": "call", "name": f"up__{name}", "arguments": {"case": case}}
        for name in SCHEMAS
        for case in ("small", "large")
    ]

    listed, *called, followed = typescript.run(installed, {"do": "list"}, *calls, {"do": "follow"})

    page = followed["result"]["contents"][0]["text"]
    assert json.dumps(rows(4_000)).startswith(page)
    names = {each["name"] for each in listed["result"]["tools"]}
    assert names >= {f"up__{name}" for name in SCHEMAS}
    for call, outcome in zip(calls, called, strict=True):
        assert "error" not in outcome, (call, outcome)
        structure = outcome["result"]["structuredContent"]
        if call["arguments"] == {"case": "small"}:
            assert structure == rows(3)
        else:
            check_reference(structure, installed, rows(4_000))


def broken_and_good() -> dict[str, JsonObject]:
    broken = {
        f"bad_{name}": tool(schema, small=result({"a": 1}, "a is 1"))
        for name, schema in BROKEN.items()
    }
    untold = tool({**PLAIN}, small=result({"wrong": True}, "no rows"))
    missing = tool({**PLAIN}, small={"content": [{"type": "text", "text": "only text"}]})
    failing = tool({**PLAIN}, small={**result({"why": "no"}, "failed"), "isError": True})
    good = tool(PLAIN, small=result(rows(1)))
    broken["array"] = tool({"type": "array"}, small=result([1, 2]))
    return {**broken, "breaks": untold, "missing": missing, "failing": failing, "good": good}


def check_broken(outcomes: dict[str, Any], *, modern: bool) -> None:
    """The tools with a broken schema answer in text, the others as their clients expect."""
    array = outcomes["up__array"]
    assert array["content"] == [{"type": "text", "text": "[1, 2]"}]
    assert array.get("structuredContent") == ([1, 2] if modern else None)
    for name in BROKEN:
        answer = outcomes[f"up__bad_{name}"]
        assert answer.get("isError") is not True
        assert answer["content"][0] == {"type": "text", "text": "a is 1"}
    assert outcomes["up__good"]["structuredContent"] == rows(1)
    breaks = outcomes["up__breaks"]
    assert breaks["isError"] is True
    assert "breaks the output schema" in breaks["content"][0]["text"]
    assert [block["text"] for block in breaks["content"][1:]] == ["no rows", '{"wrong":true}']
    missing = outcomes["up__missing"]["structuredContent"][MARKER]
    assert missing["value"] == "only text"
    failing = outcomes["up__failing"]
    assert failing["isError"] is True
    assert [block["text"] for block in failing["content"]] == ["failed", '{"why":"no"}']


@each_era
async def test_broken_schemas_cost_the_python_client_nothing(
    installed: Installation, era: Era
) -> None:
    tools = broken_and_good()
    serving(installed, **tools)
    outcomes: dict[str, Any] = {}

    async with installed.open_client(era) as client:
        listed = await client.list_tools()
        for name in tools:
            with anyio.fail_after(30):
                called = await client.call_tool(f"up__{name}", {})
            outcomes[f"up__{name}"] = called.model_dump(
                by_alias=True, mode="json", exclude_none=True
            )

    assert {each.name for each in listed.tools} >= {f"up__{name}" for name in tools}
    check_broken(outcomes, modern=era == "2026-07-28")


@each_typescript
def test_broken_schemas_cost_the_typescript_clients_nothing(
    installed: Installation, typescript: TypeScript
) -> None:
    tools = broken_and_good()
    serving(installed, **tools)
    calls: list[dict[str, Json]] = [{"do": "call", "name": f"up__{name}"} for name in tools]

    listed, *called = typescript.run(installed, {"do": "list"}, *calls)

    assert "error" not in listed, listed
    assert {each["name"] for each in listed["result"]["tools"]} >= {f"up__{name}" for name in tools}
    assert [outcome for outcome in called if "error" in outcome] == []
    names = [str(call["name"]) for call in calls]
    answers = {name: outcome["result"] for name, outcome in zip(names, called, strict=True)}
    check_broken(answers, modern=typescript.mode != "legacy")
