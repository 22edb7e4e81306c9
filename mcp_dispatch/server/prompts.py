"""`prompts/*` and `completion/complete`: of the servers behind us, prompts under names like tools'."""

from typing import cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.list_changed import listing
from mcp_dispatch.server.proxy import Passage
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk


class Prompts:
    def __init__(self, backstage: Backstage, passage: Passage) -> None:
        self._backstage = backstage
        self._passage = passage

    async def listed(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backstage.offers()
        entries: list[Json] = [prompt.entry for prompt in offered.prompts()]
        return listing(ctx, "prompts", entries)

    async def get(self, ctx: sdk.Context) -> JsonObject:
        name = (ctx.params or {}).get("name")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "prompts/get: name must be a string")
        found = (await self._backstage.offers()).prompt(name)
        if found is None:
            raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})
        return await self._passage.take(ctx, found.server, {"name": found.name})

    async def complete(self, ctx: sdk.Context) -> JsonObject:
        found = await self._reference((ctx.params or {}).get("ref"))
        if found is None:
            raise MCPError(INVALID_PARAMS, "completion/complete: ref names nothing that is offered")
        server, reference = found
        return await self._passage.take(ctx, server, {"ref": reference})

    async def _reference(self, reference: Json) -> tuple[Supervisor, JsonObject] | None:
        """Whose it is, and as its server knows it."""
        given = reference if isinstance(reference, dict) else {}
        offered = await self._backstage.offers()
        name, uri = given.get("name"), given.get("uri")
        if given.get("type") == "ref/prompt" and isinstance(name, str):
            prompt = offered.prompt(name)
            return (prompt.server, {**given, "name": prompt.name}) if prompt is not None else None
        if given.get("type") == "ref/resource" and isinstance(uri, str):
            owner = offered.owner_of(uri)
            return (owner, cast(JsonObject, given)) if owner is not None else None
        return None
