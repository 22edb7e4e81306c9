"""JSON values as Python objects."""

import json
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


def to_canonical_json(value: Json) -> str:
    """Return a text that is equal for equal JSON values only: `1`, `1.0` and `true` are equal in
    Python but not in JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
