"""Lists: the tools as they stand now; of what nobody offers here, the empty list of each era."""

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.wire import sdk

LIST_TTL_MS = 60_000


def listing(ctx: sdk.Context, key: str, entries: list[Json]) -> JsonObject:
    listed: JsonObject = {key: entries}
    return (
        listed | {"ttlMs": LIST_TTL_MS, "cacheScope": "private"} if sdk.is_modern(ctx) else listed
    )


async def nothing_listed(key: str, ctx: sdk.Context) -> JsonObject:
    return listing(ctx, key, [])


async def no_prompt(ctx: sdk.Context) -> JsonObject:
    name = (ctx.params or {}).get("name")
    if not isinstance(name, str):
        raise MCPError(INVALID_PARAMS, "prompts/get: name must be a string")
    raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})
