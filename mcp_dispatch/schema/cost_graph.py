"""A schema as a graph: which subschema applies to the same value, and which to a value inside it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.schema.refs import Document, unresolved

_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})

_SAME_VALUE = _REFERENCES | {
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
_OTHER_FIELDS = frozenset({"additionalProperties"})
_EVERY_FIELD = frozenset({"patternProperties", "unevaluatedProperties", "propertyNames"})
_OTHER_ELEMENTS = frozenset({"items", "additionalItems"})
_EVERY_ELEMENT = frozenset({"contains", "unevaluatedItems"})


@dataclass(frozen=True, slots=True)
class Inside:
    """Subschemas for the values inside an object (by name) or an array (by index)."""

    named: dict[str | int, int] = field(default_factory=lambda: {})
    rest: tuple[int, ...] = ()
    every: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One subschema as the validator works through it; edges are indexes of nodes.

    `edges` are all of them, in the order in which the validator compiles keywords.
    """

    weight: int
    edges: tuple[int, ...] = ()
    in_place: tuple[int, ...] = ()
    fields: Inside = Inside()
    elements: Inside = Inside()
    patterns: tuple[str, ...] = ()
    name_patterns: tuple[str, ...] = ()


_Found = dict[str, dict[str | int, int]]
"""By keyword, and by name or position within it: the nodes a subschema leads to."""


class _Builder:
    """Numbers subschemas as they are met; the root is met first.

    A subschema can be met twice: once to be applied, and once because an `unevaluated…` keyword
    goes through it again to mark what it has evaluated. That applies every branch anew, and
    nested it multiplies.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.waiting: list[tuple[JsonObject | bool, bool]] = []
        self._indexes: dict[tuple[int, bool], int] = {}

    def index(self, schema: JsonObject | bool, *, marking: bool = False) -> int:
        key = (id(schema), marking)
        if key not in self._indexes:
            self._indexes[key] = len(self._indexes)
            self.waiting.append((schema, marking))
        return self._indexes[key]


def build_graph(document: Document) -> tuple[Node, ...]:
    """Every subschema that can be reached from the root, which is node 0."""
    builder = _Builder(document)
    root = document.root
    builder.index(root if isinstance(root, dict | bool) else True)
    nodes: list[Node] = []
    # Nodes come in the order of their numbers: `waiting` grows while it is read.
    for schema, marking in builder.waiting:
        if isinstance(schema, bool):
            nodes.append(Node(1))
        else:
            nodes.append(_marking(builder, schema) if marking else _applied(builder, schema))
    return tuple(nodes)


def _applied(builder: _Builder, schema: JsonObject) -> Node:
    found: _Found = {
        keyword: {
            name: builder.index(one) for name, one in _subschemas(builder, schema, keyword).items()
        }
        for keyword in sorted(schema)
    }
    again = (builder.index(schema, marking=True),) if _UNEVALUATED & schema.keys() else ()
    pattern = schema.get("pattern")
    return Node(
        _weight(schema),
        (*_targets(found, found), *again),
        (*_targets(found, _SAME_VALUE), *again),
        Inside(
            found.get("properties", {}),
            _targets(found, _OTHER_FIELDS),
            _targets(found, _EVERY_FIELD),
        ),
        _elements(schema, found),
        (pattern,) if isinstance(pattern, str) else (),
        _name_patterns(schema),
    )


def _marking(builder: _Builder, schema: JsonObject) -> Node:
    same: list[int] = []
    for keyword in sorted(_SAME_VALUE & schema.keys()):
        for one in _subschemas(builder, schema, keyword).values():
            same.extend((builder.index(one), builder.index(one, marking=True)))
    found: _Found = {
        keyword: {0: builder.index(one)}
        for keyword in sorted(_UNEVALUATED | {"contains"})
        if isinstance(one := schema.get(keyword), dict | bool)
    }
    return Node(
        _weight(schema),
        (*same, *_targets(found, found)),
        tuple(same),
        Inside(every=_targets(found, _EVERY_FIELD)),
        Inside(every=_targets(found, _EVERY_ELEMENT)),
        name_patterns=_name_patterns(schema),
    )


def _subschemas(
    builder: _Builder, schema: JsonObject, keyword: str
) -> dict[str | int, JsonObject | bool]:
    """The subschemas one keyword holds, by name or position; none for other keywords."""
    value = schema[keyword]
    found: Iterable[tuple[str | int, Json]] = ()
    if keyword in _REFERENCES:
        found = enumerate(_referred(builder.document, schema, keyword))
    elif keyword in _MAPS:
        found = sorted(value.items()) if isinstance(value, dict) else ()
    elif keyword in _SAME_VALUE | _OTHER_FIELDS | _EVERY_FIELD | _OTHER_ELEMENTS | _EVERY_ELEMENT:
        found = enumerate(value if isinstance(value, list) else [value])
    elif keyword == "prefixItems" and isinstance(value, list):
        found = enumerate(value)
    return {name: one for name, one in found if isinstance(one, dict | bool)}


def _referred(document: Document, schema: JsonObject, keyword: str) -> list[Json]:
    reference = schema[keyword]
    if not isinstance(reference, str):
        return []
    targets = document.targets(schema, reference, dynamic=keyword != "$ref")
    if not targets:
        raise unresolved(reference)
    return targets


def _elements(schema: JsonObject, found: _Found) -> Inside:
    every = _targets(found, _EVERY_ELEMENT)
    rest = _targets(found, _OTHER_ELEMENTS)
    if not isinstance(schema.get("items"), list):
        return Inside(found.get("prefixItems", {}), rest, every)
    if "prefixItems" in schema:
        # Which of the two lists counts depends on the draft; both do here.
        return Inside({}, (), (*every, *rest, *_targets(found, ("prefixItems",))))
    return Inside(found["items"], _targets(found, ("additionalItems",)), every)


def _targets(found: _Found, keywords: Iterable[str]) -> tuple[int, ...]:
    wanted = frozenset(keywords)
    return tuple(
        index for keyword, ones in found.items() if keyword in wanted for index in ones.values()
    )


def _weight(schema: JsonObject) -> int:
    """Options that are arrays or objects are compared one by one; scalars are looked up."""
    options = schema.get("enum")
    if not isinstance(options, list):
        return 1
    return 1 + sum(isinstance(option, dict | list) for option in options)


def _name_patterns(schema: JsonObject) -> tuple[str, ...]:
    patterns = schema.get("patternProperties")
    return tuple(patterns) if isinstance(patterns, dict) else ()
