"""Untrusted schemas and odd arguments: nothing is fetched, nothing hangs, nothing crashes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.model.tools import Validator
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.validator import compile_schema

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema#",
}


def refusal(schema: Json) -> str:
    with pytest.raises(SchemaUnusable) as caught:
        compile_schema(schema)
    return caught.value.reason


@contextmanager
def http_server() -> Generator[tuple[str, list[str]]]:
    """Run a server that answers every path with a schema, and yield the requested paths."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
        finally:
            server.shutdown()
            thread.join(5)


def test_a_remote_reference_is_refused_and_never_requested() -> None:
    with http_server() as (address, asked):
        reason = refusal({"properties": {"a": {"$ref": address}}})

    assert reason == (
        f'refers to "{address}", which is not inside the schema; '
        "references to other documents are never fetched"
    )
    assert asked == []


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
def test_no_kind_of_remote_reference_makes_a_request(draft: str) -> None:
    with http_server() as (address, asked):
        base = address.removesuffix("schema.json")
        schemas: list[JsonObject] = [
            {"$schema": draft, "$defs": {"unused": {"$ref": address}}},
            {"$schema": draft, "definitions": {"unused": {"$ref": f"{address}#/definitions/a"}}},
            {"$schema": draft, "$id": base, "id": base, "allOf": [{"$ref": "schema.json"}]},
            {"$schema": draft, "$dynamicRef": address},
            {"$schema": draft, "$recursiveRef": address},
            {"$schema": draft, "items": {"$id": f"{base}x", "$schema": address}},
            {"$schema": address},
        ]
        for schema in schemas:
            try:
                compile_schema(schema).find_problems({"a": [1]})
            except SchemaUnusable:
                continue

    assert asked == []


def test_a_remote_reference_in_an_unused_definition_is_refused_by_the_validator() -> None:
    with http_server() as (address, asked):
        reason = refusal({"$defs": {"unused": {"$ref": address}}})

    assert reason.startswith("does not compile: Resource 'http://127.0.0.1:")
    assert asked == []


@pytest.mark.parametrize("place", ["used", "unused"])
def test_a_file_reference_is_refused_and_the_file_is_never_opened(
    place: str, tmp_path: Path
) -> None:
    pipe = tmp_path / "schema.json"
    os.mkfifo(pipe)
    reference: JsonObject = {"$ref": pipe.as_uri()}
    schema: JsonObject = reference if place == "used" else {"$defs": {"unused": reference}}

    # Opening the pipe would block forever, waiting for a writer.
    reason = refusal(schema)

    assert reason.startswith(("refers to ", "does not compile: Resource 'file://"))


@pytest.mark.parametrize("reference", ["urn:example:x", "other.json", "//host/x", "data:,{}"])
def test_a_reference_of_any_other_kind_is_refused(reference: str) -> None:
    assert refusal({"$ref": reference}).startswith(f'refers to "{reference}"')


def test_references_within_the_document_work() -> None:
    schema: JsonObject = {
        "$id": "https://example.com/root.json",
        "$defs": {
            "a": {"$id": "a.json", "type": "integer"},
            "b": {"$anchor": "bee", "type": "string"},
            "c/d e": {"type": "null"},
        },
        "properties": {
            "a": {"$ref": "a.json"},
            "b": {"$ref": "#bee"},
            "c": {"$ref": "#/$defs/c~1d%20e"},
        },
    }

    problems = compile_schema(schema).find_problems({"a": "", "b": 1, "c": 1})

    assert problems == [
        'a: expected integer, got ""',
        "b: expected string, got 1",
        "c: expected null, got 1",
    ]


EVIL_PATTERNS = [
    "^(a+)+$",
    "(x+x+)+y",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(.*)*(.*)*(.*)*!",
    r"^(?=(a+)+$)(a|aa)+b",
    r"^(a+)+(?!b)\1c",
    "(?:(?=a*b)|.)*c",
    "(?=a*?c)a",
    r"(\w{1,200}\W?){1,20}!",
    "[ab]*a[ab]{900}c",
]


@pytest.mark.parametrize("pattern", EVIL_PATTERNS)
@pytest.mark.parametrize("length", [30, 3_000, 1_000_000])
def test_no_pattern_hangs(pattern: str, length: int) -> None:
    validator = compile_schema({"properties": {"a": {"pattern": pattern}}})

    began = time.process_time()
    problems = validator.find_problems({"a": "a" * length + "\n"})
    seconds = time.process_time() - began

    assert seconds < 5
    assert len(problems) <= 1


def test_a_pattern_that_exceeds_its_step_limit_is_a_refusal() -> None:
    validator = compile_schema({"pattern": "(?:(?=a*b)|.)*c"})

    problems = validator.find_problems("a" * 1000)

    assert problems == ["(arguments): cannot be matched against its pattern in bounded time"]


def test_text_too_long_for_a_costly_pattern_is_refused() -> None:
    validator = compile_schema({"properties": {"a": {"pattern": "(a|b)*a(a|b){500}c"}}})

    problems = validator.find_problems({"a": "ab" * 1_000_000})

    assert problems == [
        "(arguments): too much text to match against the patterns of the schema; send less"
    ]


def test_long_text_without_a_costly_pattern_is_accepted() -> None:
    costly: JsonObject = {"pattern": "^(?!x)[a-z]{1,500}$"}
    validator = compile_schema({"properties": {"name": costly, "content": {"type": "string"}}})

    assert validator.find_problems({"name": "n", "content": "ab" * 5_000_000}) == []


def test_look_around_and_back_references_are_supported() -> None:
    email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9-]*\.)+[A-Za-z]{2,}$"
    validator = compile_schema({"items": {"pattern": email}})

    problems = validator.find_problems(["a.b@example.com", "a..b@example.com"])

    assert len(problems) == 1
    assert problems[0].startswith("[1]: expected text that matches ")
    assert problems[0].endswith('got "a..b@example.com"')


def test_a_broken_pattern_is_refused_when_compiling() -> None:
    reason = refusal({"properties": {"a": {"pattern": "(a"}}})

    assert (
        reason
        == 'does not compile: properties.a.pattern: expected text in the format "regex", got "(a"'
    )


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"properties": {"b": {}}}])
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"a": "\ud800"},
            "a: holds half of a surrogate pair, which is not a character; send whole characters",
        ),
        (
            {"\udfff": 1},
            '(arguments): the property name "\\udfff" holds half of a surrogate pair, '
            "which is not a character; send whole characters",
        ),
        ({"a": [float("nan")]}, "a[0]: NaN is not a JSON number"),
        ({"a": float("-inf")}, "a: -Infinity is not a JSON number"),
        ({"a": 1 << 20_000}, "a: an integer of 20001 bits is too large"),
        ({1: 2}, "(arguments): a property name of Python type int is not JSON"),
        ({"a": b""}, "a: a Python bytes is not JSON"),
        ({"a": (1, 2)}, "a: a Python tuple is not JSON"),
    ],
)
def test_a_value_that_is_not_json_is_refused_with_any_schema(
    schema: Json, arguments: object, problem: str
) -> None:
    validator = compile_schema(schema)

    assert validator.find_problems(cast(Json, arguments)) == [problem]


def test_numbers_are_compared_exactly() -> None:
    validator = compile_schema({"type": "integer", "maximum": 2**53})

    assert validator.find_problems(2**53) == []
    assert validator.find_problems(2**53 + 1) == [
        "(arguments): expected at most 9007199254740992, got 9007199254740993"
    ]
    assert compile_schema({"const": 10**30}).find_problems(10**30) == []
    assert compile_schema({"const": 10**30}).find_problems(10**30 + 1) != []


@pytest.mark.parametrize("value", [True, 1.5, "1", None])
def test_other_values_are_not_integers(value: Json) -> None:
    assert compile_schema({"type": "integer"}).find_problems(value) != []


@pytest.mark.parametrize("value", [0, -0.0, 1.0, 1e20, 10**30])
def test_a_number_without_a_fraction_is_an_integer(value: Json) -> None:
    assert compile_schema({"type": "integer"}).find_problems(value) == []


def test_very_deep_arguments_are_refused_before_validation() -> None:
    deep: list[Json] = []
    for _ in range(50_000):
        deep = [deep]

    problems = compile_schema({"items": {"$ref": "#"}}).find_problems({"a": deep})

    assert len(problems) == 1
    assert problems[0].endswith("]: nested more than 200 levels deep; send a flatter value")
    assert len(problems[0]) < 400


def test_arguments_that_contain_themselves_are_refused() -> None:
    endless: list[Json] = []
    endless.append(endless)

    problems = compile_schema({}).find_problems(endless)

    assert len(problems) == 1
    assert problems[0].endswith("nested more than 200 levels deep; send a flatter value")


def test_arguments_of_the_greatest_depth_we_accept_are_validated() -> None:
    deep: Json = "leaf"
    for _ in range(200):
        deep = [deep]
    validator = compile_schema({"type": ["array", "integer"], "items": {"$ref": "#"}})

    problems = validator.find_problems(deep)

    assert len(problems) == 1
    assert problems[0].endswith(': expected array or integer, got "leaf"')


def test_many_wide_integers_are_refused_before_they_are_compared_pair_by_pair() -> None:
    numbers: list[Json] = [10**300 + index for index in range(3_000)]

    problems = compile_schema({"uniqueItems": True}).find_problems(numbers)

    assert len(problems) == 1
    assert problems[0].endswith(": more than 500 integers beyond 64 bits in one call; send fewer")


@pytest.mark.parametrize(
    "named",
    [
        "http://json-schema.org/draft-03/schema#",
        "https://json-schema.org/draft/next/schema",
        "https://example.com/my-schema",
        "",
        7,
    ],
)
def test_an_unknown_schema_address_falls_back_to_2020_12(named: Json) -> None:
    schema: JsonObject = {"$schema": named, "prefixItems": [{"type": "integer"}]}

    if isinstance(named, str):
        assert compile_schema(schema).find_problems(["x"]) == ['[0]: expected integer, got "x"']
    else:
        assert refusal(schema).startswith("does not compile: $schema: ")


def test_the_named_draft_is_used() -> None:
    tuples: JsonObject = {"items": [{"type": "integer"}], "additionalItems": False}

    old = compile_schema({"$schema": DRAFTS["7"], **tuples})

    assert old.find_problems([1, 2]) == ["(arguments): expected at most 1 items, got 2"]
    assert refusal({"$schema": DRAFTS["2020-12"], **tuples}).startswith("does not compile: items: ")
    exclusive: JsonObject = {"$schema": DRAFTS["4"], "minimum": 1, "exclusiveMinimum": True}
    assert compile_schema(exclusive).find_problems(1) == [
        "(arguments): expected more than 1, got 1"
    ]


@pytest.mark.parametrize("draft", DRAFTS.values(), ids=DRAFTS)
@pytest.mark.parametrize("name", ["email", "uri", "date-time", "ipv4", "regex", "unheard-of"])
def test_a_format_is_an_annotation_in_every_draft(draft: str, name: str) -> None:
    schema: JsonObject = {"$schema": draft, "properties": {"a": {"format": name}}}

    assert compile_schema(schema).find_problems({"a": "(not at all"}) == []


def test_a_compiled_schema_is_a_validator_that_cannot_be_changed() -> None:
    compiled = compile_schema({"type": "object"})
    validator: Validator = compiled

    assert validator.find_problems({}) == []
    with pytest.raises(AttributeError):
        compiled.schema = {}  # pyright: ignore[reportAttributeAccessIssue]  # must fail


def test_importing_the_package_does_not_import_a_validator() -> None:
    program = (
        "import sys, mcp_dispatch.schema.validator, mcp_dispatch.schema.definition;"
        "print(sorted({'jsonschema', 'jsonschema_rs', 'referencing'} & set(sys.modules)))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=60
    )

    assert finished.stdout == "[]\n"
