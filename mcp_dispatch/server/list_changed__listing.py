"""The envelope of a list, in either era."""

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire import sdk

LIST_TTL_MS = 60_000


def listing(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    listed: JsonObject = {key: entries}
    return (
        listed | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if sdk.is_modern(ctx) else listed
    )
