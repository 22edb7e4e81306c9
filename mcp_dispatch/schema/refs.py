"""Reads a schema document: checks its depth and size, resolves and rebases its references."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from urllib.parse import unquote

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.error_messages import format_value, truncate_line
from mcp_dispatch.schema.errors import SchemaUnusable

DEPTH_LIMIT = 64
NODE_LIMIT = 10_000

_SCALAR_TYPES = frozenset({bool, int, float, str, type(None)})


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """The root of a schema, and everything that a reference inside it can refer to.

    Objects are identified by `id()`: a parsed document contains each of them once, and `root`
    keeps them alive.
    """

    root: Json
    resources: tuple[JsonObject, ...]
    anchors: dict[str, list[JsonObject]]
    enclosing_resources: dict[int, tuple[JsonObject, ...]]

    def resolve_reference(self, owner: JsonObject, reference: str, *, dynamic: bool) -> list[Json]:
        """Return every subschema that `reference` inside `owner` may refer to.

        Drafts differ in where `$id` applies. The result contains the targets of all drafts, so
        that the one that the validator uses is counted.
        """
        address, _, fragment = reference.partition("#")
        name = unquote(fragment)
        if name and not name.startswith("/"):
            return list(self.anchors.get(name, ()))
        bases = self._find_bases(owner, unquote(address), dynamic=dynamic)
        found = [_follow_pointer(base, name) for base in bases]
        return [target for target in found if isinstance(target, dict | bool)]

    def _find_bases(self, owner: JsonObject, address: str, *, dynamic: bool) -> Iterable[Json]:
        if address:
            return [one for one in self.resources if _may_identify(address, one)]
        return self.resources if dynamic else self.enclosing_resources[id(owner)]


def read_document(schema: Json) -> SchemaDocument:
    """Walk the document once; raise `SchemaUnusable` if it is too deep or too large."""
    root = schema if isinstance(schema, dict) else {}
    resources: list[JsonObject] = [root]
    anchors: dict[str, list[JsonObject]] = {}
    enclosing: dict[int, tuple[JsonObject, ...]] = {}
    waiting: list[tuple[Json, int, tuple[JsonObject, ...]]] = [(schema, 1, (root,))]
    nodes = 0
    while waiting:
        value, depth, chain = waiting.pop()
        nodes += 1
        _check_size(nodes, depth)
        if isinstance(value, dict):
            if value is not root and _has_address(value):
                resources.append(value)
                chain = (*chain, value)
            for name in _list_anchors(value):
                anchors.setdefault(name, []).append(value)
            enclosing[id(value)] = chain
            _require_string_keys(value)
            waiting.extend((inner, depth + 1, chain) for inner in value.values())
        elif isinstance(value, list):
            waiting.extend((inner, depth + 1, chain) for inner in value)
        elif type(value) not in _SCALAR_TYPES or (isinstance(value, float) and not isfinite(value)):
            raise SchemaUnusable(f"holds {truncate_line(repr(value))}, which is not JSON")
    return SchemaDocument(schema, tuple(resources), anchors, enclosing)


def _check_size(nodes: int, depth: int) -> None:
    if depth > DEPTH_LIMIT:
        raise SchemaUnusable(f"is nested more than {DEPTH_LIMIT} levels deep")
    if nodes > NODE_LIMIT:
        raise SchemaUnusable(f"holds more than {NODE_LIMIT} values")


def _require_string_keys(value: JsonObject) -> None:
    names: list[object] = list(value)
    for name in names:
        if not isinstance(name, str):
            raise SchemaUnusable(f"holds a key of type {type(name).__name__}, which is not JSON")


def _list_identifiers(value: JsonObject) -> list[str]:
    return [text for text in (value.get("$id"), value.get("id")) if isinstance(text, str)]


def _has_address(value: JsonObject) -> bool:
    return any(text.partition("#")[0] for text in _list_identifiers(value))


def _list_anchors(value: JsonObject) -> list[str]:
    named = (value.get("$anchor"), value.get("$dynamicAnchor"))
    fragments = [unquote(text.partition("#")[2]) for text in _list_identifiers(value)]
    return [*(name for name in named if isinstance(name, str)), *filter(None, fragments)]


def _may_identify(address: str, resource: JsonObject) -> bool:
    """Compare last segments: resolving against a base can change everything before them."""
    wanted = _extract_last_segment(address)
    own = [
        _extract_last_segment(unquote(text.partition("#")[0]))
        for text in _list_identifiers(resource)
    ]
    vague = ("", ".", "..")
    return any(wanted == segment or wanted in vague or segment in vague for segment in own)


def _extract_last_segment(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


def _follow_pointer(base: Json, pointer: str) -> Json:
    """Return the value at a JSON pointer; None if there is none."""
    value = base
    for raw in pointer.split("/")[1:]:
        step = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            index = int(step[:9])
            value = value[index] if index < len(value) else None
        else:
            return None
    return value


def build_unresolved_error(reference: str) -> SchemaUnusable:
    return SchemaUnusable(
        f"refers to {format_value(reference)}, which is not inside the schema; "
        "references to other documents are never fetched"
    )


class Draft(Enum):
    """The drafts we support; a value is the name of its class in jsonschema and jsonschema-rs."""

    DRAFT_4 = "Draft4Validator"
    DRAFT_6 = "Draft6Validator"
    DRAFT_7 = "Draft7Validator"
    DRAFT_2019_09 = "Draft201909Validator"
    DRAFT_2020_12 = "Draft202012Validator"


_DRAFT_BY_ADDRESS = {
    "json-schema.org/draft-04/schema": Draft.DRAFT_4,
    "json-schema.org/draft-06/schema": Draft.DRAFT_6,
    "json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Draft.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020_12,
}


def detect_draft(schema: Json) -> Draft:
    """Return the draft that `$schema` names; 2020-12 if it is absent or unknown."""
    return _find_named_draft(schema) or Draft.DRAFT_2020_12


def has_known_draft(schema: JsonObject) -> bool:
    """Return whether `$schema` is absent or known to validators."""
    return "$schema" not in schema or _find_named_draft(schema) is not None


def _find_named_draft(schema: Json) -> Draft | None:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return None
    address = named.removeprefix("https://").removeprefix("http://").removesuffix("#")
    return _DRAFT_BY_ADDRESS.get(address)


_REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
_SCHEMA_KEYWORDS = frozenset(
    (
        *("not", "if", "then", "else", "contains", "items", "additionalItems", "propertyNames"),
        *("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contentSchema"),
    )
)
_SCHEMA_LIST_KEYWORDS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_SCHEMA_MAP_KEYWORDS = frozenset(
    (
        *("properties", "patternProperties", "dependentSchemas", "dependencies"),
        *("$defs", "definitions"),
    )
)


def rebase_references(schema: JsonObject, base: str) -> JsonObject:
    """Return `schema` with references that are valid at `base` ("#/anyOf/0") of another document.

    Only keywords that contain subschemas are searched: a `$ref` in `properties` is a property of
    that name, and `const`, `enum`, `default` and `examples` are data. Pointers below an `$id` are
    relative to it and do not change.
    """
    if _has_own_address(schema):
        return schema
    return {key: _rebase_value(key, value, base) for key, value in schema.items()}


def _rebase_value(key: str, value: Json, base: str) -> Json:
    if key in _REFERENCE_KEYWORDS and isinstance(value, str):
        return base + value.removeprefix("#") if value == "#" or value.startswith("#/") else value
    if key in _SCHEMA_MAP_KEYWORDS and isinstance(value, dict):
        return {name: _rebase_subschema(each, base) for name, each in value.items()}
    if key in _SCHEMA_LIST_KEYWORDS and isinstance(value, list):
        return [_rebase_subschema(each, base) for each in value]
    return _rebase_subschema(value, base) if key in _SCHEMA_KEYWORDS else value


def _rebase_subschema(value: Json, base: str) -> Json:
    return rebase_references(value, base) if isinstance(value, dict) else value


def _has_own_address(schema: JsonObject) -> bool:
    """Return whether the schema has an `$id` that is more than a fragment."""
    own = schema.get("$id")
    return isinstance(own, str) and own.partition("#")[0] != ""
