"""`resources/*`: what is kept here is read here; everything else belongs to a server behind us."""

from collections.abc import Iterable
from typing import Protocol

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.list_changed__listing import listing
from mcp_dispatch.server.proxy import Passage
from mcp_dispatch.wire import sdk

RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; since then it is an invalid parameter."""


class LocalResources(Protocol):
    """Resources of our own, under a scheme that no server behind us may claim."""

    def owns(self, uri: str) -> bool: ...

    async def read(self, uri: str, scope: Scope) -> JsonObject | None:
        """The result of `resources/read`; None where this scope has no such resource."""
        ...


class Resources:
    def __init__(self, backstage: Backstage, passage: Passage) -> None:
        self._backstage = backstage
        self._passage = passage

    async def listed(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backstage.offers()
        return listing(ctx, "resources", self._foreign(offered.resources(), "uri"))

    async def listed_templates(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backstage.offers()
        templates = self._foreign(offered.templates(), "uriTemplate")
        return listing(ctx, "resourceTemplates", templates)

    def _foreign(self, entries: Iterable[JsonObject], key: str) -> list[Json]:
        """Nobody else lists what is under a scheme of ours."""
        local = self._backstage.local_resources
        return [each for each in entries if local is None or not local.owns(str(each.get(key)))]

    async def read(self, ctx: sdk.Context) -> JsonObject:
        uri = uri_of(ctx)
        local = self._backstage.local_resources
        if local is not None and local.owns(uri):
            found = await local.read(uri, self._backstage.scope_of(ctx))
            if found is None:
                raise not_found(ctx, uri)
            return _fresh(ctx, found)
        owner = (await self._backstage.offers()).owner_of(uri)
        if owner is None:
            raise not_found(ctx, uri)
        try:
            return _fresh(ctx, await self._passage.take(ctx, owner))
        except MCPError as error:
            if error.code == RESOURCE_NOT_FOUND and sdk.is_modern(ctx):
                raise MCPError(INVALID_PARAMS, error.message, error.data) from error
            raise


def uri_of(ctx: sdk.Context) -> str:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: uri must be a string")
    return uri


def not_found(ctx: sdk.Context, uri: str) -> MCPError:
    code = INVALID_PARAMS if sdk.is_modern(ctx) else RESOURCE_NOT_FOUND
    return MCPError(code, "Resource not found", {"uri": uri})


def _fresh(ctx: sdk.Context, result: JsonObject) -> JsonObject:
    """Since 2026-07-28 a result of reading says for how long it holds."""
    if result.get("resultType") == "input_required":
        return result
    return {"ttlMs": 0, "cacheScope": "private", **result} if sdk.is_modern(ctx) else result
