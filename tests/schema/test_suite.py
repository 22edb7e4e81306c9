"""Our verdicts against the JSON Schema test suite, and against the `jsonschema` package."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.definition import find_definition_problem
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import CompiledSchema, compile_schema

ADDRESSES = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}

METASCHEMA = "a metaschema is another document, and references to those are not followed"
REFUSED = {
    ("defs.json", "validate definition against metaschema"): METASCHEMA,
    ("definitions.json", "validate definition against metaschema"): METASCHEMA,
    ("ref.json", "remote ref, containing refs itself"): METASCHEMA,
}

OWN_METASCHEMA = "an unknown `$schema` is read as 2020-12, its vocabularies are not fetched"
NOT_AS_THE_SUITE = {
    (
        "vocabulary.json",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): OWN_METASCHEMA,
    (
        "optional/format-assertion.json",
        "schema that uses custom metaschema with format-assertion: false",
    ): OWN_METASCHEMA,
    (
        "optional/format-assertion.json",
        "schema that uses custom metaschema with format-assertion: true",
    ): OWN_METASCHEMA,
}

FORMATS = "optional/format/"  # Formats are annotations for us, so only `jsonschema` is tested.

PYTHON_PATTERNS = "the package matches with Python's `re`"
NOT_AS_THE_PACKAGE = {
    "optional/ecmascript-regex.json": PYTHON_PATTERNS,
    "pattern with Unicode property escape requires unicode mode": PYTHON_PATTERNS,
    "patternProperties with Unicode property escape": PYTHON_PATTERNS,
    "optional/dependencies-compatibility.json": "the package drops `dependencies` in 2020-12",
    "optional/content.json": "the package takes `contentEncoding` for an annotation in draft 7",
}


class Group(NamedTuple):
    file: str
    description: str
    needs_remote: bool
    schema: Json
    tests: list[dict[str, Any]]


def groups(data_dir: Path, draft: str) -> list[Group]:
    """Load the groups of the suite, with `$schema` in every schema."""
    text = (data_dir / "jsonschema" / f"{draft}.json").read_text(encoding="utf-8")
    found: list[Group] = []
    for row in json.loads(text):
        schema: Json = row["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": ADDRESSES[draft], **schema}
        remote = row["needs_remote"]
        found.append(Group(row["file"], row["description"], remote, schema, row["tests"]))
    return found


def compiled(group: Group) -> CompiledSchema | None:
    try:
        return compile_schema(group.schema)
    except SchemaUnusable:
        return None


def oracle(group: Group) -> Any:
    """Build a `jsonschema` validator that knows the metaschemas and no other document."""
    validators: Any = import_module("jsonschema.validators")
    known: Any = import_module("jsonschema_specifications").REGISTRY
    default = validators.Draft202012Validator
    return validators.validator_for(group.schema, default=default)(group.schema, registry=known)


@pytest.fixture(params=ADDRESSES)
def suite(data_dir: Path, request: pytest.FixtureRequest) -> list[Group]:
    return groups(data_dir, request.param)


def test_every_verdict_equals_that_of_the_test_suite(suite: list[Group]) -> None:
    wrong: list[tuple[str, str, str]] = []
    judged = 0

    for group in suite:
        validator = compiled(group)
        if validator is None or group.file.startswith(FORMATS):
            continue
        if group[:2] in NOT_AS_THE_SUITE:
            continue
        for test in group.tests:
            judged += 1
            if (validator.find_problems(test["data"]) == []) != test["valid"]:
                wrong.append((*group[:2], test["description"]))

    assert wrong == []
    assert judged > 900


def test_every_verdict_equals_that_of_jsonschema(suite: list[Group]) -> None:
    wrong: list[tuple[str, str, str]] = []
    judged = 0

    for group in suite:
        validator = compiled(group)
        if validator is None or {group.file, group.description} & NOT_AS_THE_PACKAGE.keys():
            continue
        package = oracle(group)
        for test in group.tests:
            judged += 1
            if (validator.find_problems(test["data"]) == []) != package.is_valid(test["data"]):
                wrong.append((*group[:2], test["description"]))

    assert wrong == []
    assert judged > 900


def test_only_schemas_with_remote_references_are_refused(suite: list[Group]) -> None:
    refused = [group for group in suite if compiled(group) is None]

    assert [g[:2] for g in refused if not g.needs_remote and g[:2] not in REFUSED] == []
    assert len(refused) > 5


def test_a_remote_group_is_refused_unless_the_document_contains_all_its_targets(
    suite: list[Group],
) -> None:
    unresolvable: type[Exception] = import_module("referencing.exceptions").Unresolvable
    accepted: list[tuple[str, str]] = []

    for group in suite:
        if not group.needs_remote or compiled(group) is None:
            continue
        package = oracle(group)
        for test in group.tests:
            try:
                package.is_valid(test["data"])
            except unresolvable:
                accepted.append(group[:2])

    assert accepted == []


def test_every_schema_of_the_suite_that_compiles_passes_its_metaschema(suite: list[Group]) -> None:
    usable = [group for group in suite if compiled(group) is not None]

    problems = {group[:2]: find_definition_problem(group.schema) for group in usable}

    assert {where: text for where, text in problems.items() if text is not None} == {}


def test_the_tables_name_only_groups_that_exist(data_dir: Path) -> None:
    every = [group for draft in ADDRESSES for group in groups(data_dir, draft)]
    tables: dict[tuple[str, str], str] = {**REFUSED, **NOT_AS_THE_SUITE}

    assert set(tables) <= {group[:2] for group in every}
    assert set(NOT_AS_THE_PACKAGE) <= {text for group in every for text in group[:2]}


def test_of_real_tools_only_those_that_break_their_metaschema_are_refused(data_dir: Path) -> None:
    lines = (data_dir / "toolsearch" / "tools.jsonl").read_text(encoding="utf-8").splitlines()
    refused: dict[str, str | None] = {}

    for line in lines:
        tool: JsonObject = json.loads(line)
        try:
            compile_schema(tool["inputSchema"])
        except SchemaUnusable:
            refused[str(tool["id"])] = find_definition_problem(tool["inputSchema"])

    assert [
        t for t in refused.values() if not t or not t.startswith("breaks its metaschema: ")
    ] == []
    assert len(refused) < len(lines) / 100
