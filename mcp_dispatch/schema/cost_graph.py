"""A schema as a graph: edges lead to subschemas for the same value or for values inside it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.refs import SchemaDocument, build_unresolved_error

_REFERENCE_KEYWORDS = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MAP_KEYWORDS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_UNEVALUATED_KEYWORDS = frozenset({"unevaluatedProperties", "unevaluatedItems"})

_SAME_VALUE_KEYWORDS = _REFERENCE_KEYWORDS | {
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
}
_OTHER_FIELDS_KEYWORDS = frozenset({"additionalProperties"})
_EVERY_FIELD_KEYWORDS = frozenset({"patternProperties", "unevaluatedProperties", "propertyNames"})
_OTHER_ELEMENTS_KEYWORDS = frozenset({"items", "additionalItems"})
_EVERY_ELEMENT_KEYWORDS = frozenset({"contains", "unevaluatedItems"})


@dataclass(frozen=True, slots=True)
class ChildSchemas:
    """Subschemas for the values inside an object (by name) or an array (by index).

    `others` apply to values that have no entry in `named`, `always` to all values.
    """

    named: dict[str | int, int] = field(default_factory=lambda: {})
    others: tuple[int, ...] = ()
    always: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaNode:
    """One subschema; edges are indexes of nodes.

    `edges` are in the order in which the validator compiles keywords; `same_value` are those that
    lead to a subschema for the same value.
    """

    weight: int
    edges: tuple[int, ...] = ()
    same_value: tuple[int, ...] = ()
    fields: ChildSchemas = ChildSchemas()
    elements: ChildSchemas = ChildSchemas()
    patterns: tuple[str, ...] = ()
    name_patterns: tuple[str, ...] = ()


_TargetsByKeyword = dict[str, dict[str | int, int]]
"""The indexes of nodes by keyword, and by name or position within the keyword."""


class _GraphBuilder:
    """Numbers subschemas in the order of discovery, the root first.

    A subschema can have two nodes: one for its application, and one because an `unevaluated…`
    keyword visits it again to mark what it has evaluated. That applies every branch again, and
    nesting multiplies it.
    """

    def __init__(self, document: SchemaDocument) -> None:
        self.document = document
        self.waiting: list[tuple[JsonObject | bool, bool]] = []
        self._indexes: dict[tuple[int, bool], int] = {}

    def index(self, schema: JsonObject | bool, *, marking: bool = False) -> int:
        key = (id(schema), marking)
        if key not in self._indexes:
            self._indexes[key] = len(self._indexes)
            self.waiting.append((schema, marking))
        return self._indexes[key]


def build_graph(document: SchemaDocument) -> tuple[SchemaNode, ...]:
    """Return a node for every subschema that is reachable from the root, which is node 0."""
    builder = _GraphBuilder(document)
    root = document.root
    builder.index(root if isinstance(root, dict | bool) else True)
    nodes: list[SchemaNode] = []
    # The loop extends `waiting`, so that the nodes are in the order of their numbers.
    for schema, marking in builder.waiting:
        if isinstance(schema, bool):
            nodes.append(SchemaNode(1))
        else:
            nodes.append(
                _build_marking_node(builder, schema)
                if marking
                else _build_applied_node(builder, schema)
            )
    return tuple(nodes)


def _build_applied_node(builder: _GraphBuilder, schema: JsonObject) -> SchemaNode:
    found: _TargetsByKeyword = {
        keyword: {
            name: builder.index(one)
            for name, one in _list_subschemas(builder, schema, keyword).items()
        }
        for keyword in sorted(schema)
    }
    again = (builder.index(schema, marking=True),) if _UNEVALUATED_KEYWORDS & schema.keys() else ()
    pattern = schema.get("pattern")
    return SchemaNode(
        _compute_weight(schema),
        (*_collect_targets(found, found), *again),
        (*_collect_targets(found, _SAME_VALUE_KEYWORDS), *again),
        ChildSchemas(
            found.get("properties", {}),
            _collect_targets(found, _OTHER_FIELDS_KEYWORDS),
            _collect_targets(found, _EVERY_FIELD_KEYWORDS),
        ),
        _build_elements(schema, found),
        (pattern,) if isinstance(pattern, str) else (),
        _list_name_patterns(schema),
    )


def _build_marking_node(builder: _GraphBuilder, schema: JsonObject) -> SchemaNode:
    same: list[int] = []
    for keyword in sorted(_SAME_VALUE_KEYWORDS & schema.keys()):
        for one in _list_subschemas(builder, schema, keyword).values():
            same.extend((builder.index(one), builder.index(one, marking=True)))
    found: _TargetsByKeyword = {
        keyword: {0: builder.index(one)}
        for keyword in sorted(_UNEVALUATED_KEYWORDS | {"contains"})
        if isinstance(one := schema.get(keyword), dict | bool)
    }
    return SchemaNode(
        _compute_weight(schema),
        (*same, *_collect_targets(found, found)),
        tuple(same),
        ChildSchemas(always=_collect_targets(found, _EVERY_FIELD_KEYWORDS)),
        ChildSchemas(always=_collect_targets(found, _EVERY_ELEMENT_KEYWORDS)),
        name_patterns=_list_name_patterns(schema),
    )


def _list_subschemas(
    builder: _GraphBuilder, schema: JsonObject, keyword: str
) -> dict[str | int, JsonObject | bool]:
    """Return the subschemas of one keyword by name or position; empty for other keywords."""
    value = schema[keyword]
    found: Iterable[tuple[str | int, Json]] = ()
    if keyword in _REFERENCE_KEYWORDS:
        found = enumerate(_resolve_reference(builder.document, schema, keyword))
    elif keyword in _MAP_KEYWORDS:
        found = sorted(value.items()) if isinstance(value, dict) else ()
    elif (
        keyword
        in _SAME_VALUE_KEYWORDS
        | _OTHER_FIELDS_KEYWORDS
        | _EVERY_FIELD_KEYWORDS
        | _OTHER_ELEMENTS_KEYWORDS
        | _EVERY_ELEMENT_KEYWORDS
    ):
        found = enumerate(value if isinstance(value, list) else [value])
    elif keyword == "prefixItems" and isinstance(value, list):
        found = enumerate(value)
    return {name: one for name, one in found if isinstance(one, dict | bool)}


def _resolve_reference(document: SchemaDocument, schema: JsonObject, keyword: str) -> list[Json]:
    reference = schema[keyword]
    if not isinstance(reference, str):
        return []
    targets = document.resolve_reference(schema, reference, dynamic=keyword != "$ref")
    if not targets:
        raise build_unresolved_error(reference)
    return targets


def _build_elements(schema: JsonObject, found: _TargetsByKeyword) -> ChildSchemas:
    every = _collect_targets(found, _EVERY_ELEMENT_KEYWORDS)
    rest = _collect_targets(found, _OTHER_ELEMENTS_KEYWORDS)
    if not isinstance(schema.get("items"), list):
        return ChildSchemas(found.get("prefixItems", {}), rest, every)
    if "prefixItems" in schema:
        # The draft decides which of the two lists applies; both count here.
        return ChildSchemas({}, (), (*every, *rest, *_collect_targets(found, ("prefixItems",))))
    return ChildSchemas(found["items"], _collect_targets(found, ("additionalItems",)), every)


def _collect_targets(found: _TargetsByKeyword, keywords: Iterable[str]) -> tuple[int, ...]:
    wanted = frozenset(keywords)
    return tuple(
        index for keyword, ones in found.items() if keyword in wanted for index in ones.values()
    )


def _compute_weight(schema: JsonObject) -> int:
    """Count `enum` options that are compared one by one: arrays and objects. Scalars are hashed."""
    options = schema.get("enum")
    if not isinstance(options, list):
        return 1
    return 1 + sum(isinstance(option, dict | list) for option in options)


def _list_name_patterns(schema: JsonObject) -> tuple[str, ...]:
    patterns = schema.get("patternProperties")
    return tuple(patterns) if isinstance(patterns, dict) else ()
