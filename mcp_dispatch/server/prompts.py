"""`prompts/*` and `completion/complete`: of the servers behind us, prompts under names like tools'."""

from typing import cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.list_changed import build_list_result
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk


class PromptHandler:
    def __init__(self, backend: Backend, proxy: UpstreamProxy) -> None:
        self._backend = backend
        self._proxy = proxy

    async def list_prompts(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backend.wait_for_offers()
        entries: list[Json] = [prompt.entry for prompt in offered.list_prompts()]
        return build_list_result(ctx, "prompts", entries)

    async def get_prompt(self, ctx: sdk.Context) -> JsonObject:
        name = (ctx.params or {}).get("name")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "prompts/get: name must be a string")
        found = (await self._backend.wait_for_offers()).find_prompt(name)
        if found is None:
            raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})
        return await self._proxy.forward(ctx, found.server, {"name": found.name})

    async def complete_argument(self, ctx: sdk.Context) -> JsonObject:
        found = await self._resolve_reference((ctx.params or {}).get("ref"))
        if found is None:
            raise MCPError(INVALID_PARAMS, "completion/complete: ref names nothing that is offered")
        server, reference = found
        return await self._proxy.forward(ctx, server, {"ref": reference})

    async def _resolve_reference(self, reference: Json) -> tuple[Supervisor, JsonObject] | None:
        """Whose it is, and as its server knows it."""
        given = reference if isinstance(reference, dict) else {}
        offered = await self._backend.wait_for_offers()
        name, uri = given.get("name"), given.get("uri")
        if given.get("type") == "ref/prompt" and isinstance(name, str):
            prompt = offered.find_prompt(name)
            return (prompt.server, {**given, "name": prompt.name}) if prompt is not None else None
        if given.get("type") == "ref/resource" and isinstance(uri, str):
            owner = offered.find_owner(uri)
            return (owner, cast(JsonObject, given)) if owner is not None else None
        return None
