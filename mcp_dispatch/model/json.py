"""JSON as Python holds it: the values that arrive, travel and leave unchanged."""

import json
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


def to_canonical_json(value: Json) -> str:
    """One text for one value: `1`, `1.0` and `true` are three, though Python calls them equal."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
