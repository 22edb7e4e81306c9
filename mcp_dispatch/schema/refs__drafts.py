"""Which draft of JSON Schema a schema is written in."""

from enum import Enum

from mcp_dispatch.model.json import Json, JsonObject


class Draft(Enum):
    """The value is the class name that jsonschema and jsonschema-rs share for it."""

    DRAFT_4 = "Draft4Validator"
    DRAFT_6 = "Draft6Validator"
    DRAFT_7 = "Draft7Validator"
    DRAFT_2019_09 = "Draft201909Validator"
    DRAFT_2020_12 = "Draft202012Validator"


_BY_ADDRESS = {
    "json-schema.org/draft-04/schema": Draft.DRAFT_4,
    "json-schema.org/draft-06/schema": Draft.DRAFT_6,
    "json-schema.org/draft-07/schema": Draft.DRAFT_7,
    "json-schema.org/draft/2019-09/schema": Draft.DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.DRAFT_2020_12,
}


def draft_of(schema: Json) -> Draft:
    """The draft `$schema` names; 2020-12 where it is absent or names something else."""
    return _named(schema) or Draft.DRAFT_2020_12


def names_known_draft(schema: JsonObject) -> bool:
    """Whether `$schema` is absent or one that validators know."""
    return "$schema" not in schema or _named(schema) is not None


def _named(schema: Json) -> Draft | None:
    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return None
    address = named.removeprefix("https://").removeprefix("http://").removesuffix("#")
    return _BY_ADDRESS.get(address)
