"""A schema moved under another one: the pointers inside it follow."""

from mcp_dispatch.model.json import Json, JsonObject

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ONE = frozenset(
    (
        *("not", "if", "then", "else", "contains", "items", "additionalItems", "propertyNames"),
        *("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contentSchema"),
    )
)
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset(
    (
        *("properties", "patternProperties", "dependentSchemas", "dependencies"),
        *("$defs", "definitions"),
    )
)


def rebased(schema: JsonObject, base: str) -> JsonObject:
    """`schema` for the place `base` ("#/anyOf/0") of another document.

    Only where a subschema can stand: a `$ref` among `properties` is a property of that name, and
    in `const`, `enum`, `default` and `examples` everything is data. Below an `$id` of its own,
    pointers start there and stay as they are.
    """
    if _has_own_address(schema):
        return schema
    moved: JsonObject = {}
    for key, value in schema.items():
        moved[key] = _moved(key, value, base)
    return moved


def _moved(key: str, value: Json, base: str) -> Json:
    if key in _REFERENCES and isinstance(value, str):
        return base + value.removeprefix("#") if value == "#" or value.startswith("#/") else value
    if key in _NAMED and isinstance(value, dict):
        return {name: _schema(each, base) for name, each in value.items()}
    if key in _SEVERAL and isinstance(value, list):
        return [_schema(each, base) for each in value]
    return _schema(value, base) if key in _ONE else value


def _schema(value: Json, base: str) -> Json:
    return rebased(value, base) if isinstance(value, dict) else value


def _has_own_address(schema: JsonObject) -> bool:
    """A `$id` that is only a fragment names a place in the same document."""
    own = schema.get("$id")
    return isinstance(own, str) and own.partition("#")[0] != ""
