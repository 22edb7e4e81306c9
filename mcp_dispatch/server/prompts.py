"""`prompts/*` and `completion/complete`, forwarded to the upstream that owns the prompt."""

from typing import cast

from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.server.backend import Backend, wait_for_offers
from mcp_dispatch.server.list_changed import build_list_result
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.upstream.supervisor import Supervisor
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError


class PromptHandler:
    """Handles prompts, which are named like tools: server__prompt."""

    def __init__(self, backend: Backend, proxy: UpstreamProxy) -> None:
        self._backend = backend
        self._proxy = proxy

    async def list_prompts(self, ctx: sdk.Context) -> JsonObject:
        aggregator = await wait_for_offers(self._backend)
        entries: list[Json] = [prompt.entry for prompt in aggregator.list_prompts()]
        return build_list_result(ctx, "prompts", entries)

    async def get_prompt(self, ctx: sdk.Context) -> JsonObject:
        name = (ctx.params or {}).get("name")
        if not isinstance(name, str):
            raise MCPError(INVALID_PARAMS, "prompts/get: name must be a string")
        prompt = (await wait_for_offers(self._backend)).find_prompt(name)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, "Prompt not found", {"name": name})
        return await self._proxy.forward(ctx, prompt.server, {"name": prompt.name})

    async def complete_argument(self, ctx: sdk.Context) -> JsonObject:
        resolved = await self._resolve_reference((ctx.params or {}).get("ref"))
        if resolved is None:
            raise MCPError(INVALID_PARAMS, "completion/complete: ref names nothing that is offered")
        server, reference = resolved
        return await self._proxy.forward(ctx, server, {"ref": reference})

    async def _resolve_reference(self, value: Json) -> tuple[Supervisor, JsonObject] | None:
        """Return the upstream that owns the reference, and the reference as that upstream names it."""
        reference = value if isinstance(value, dict) else {}
        aggregator = await wait_for_offers(self._backend)
        name, uri = reference.get("name"), reference.get("uri")
        if reference.get("type") == "ref/prompt" and isinstance(name, str):
            prompt = aggregator.find_prompt(name)
            return None if prompt is None else (prompt.server, {**reference, "name": prompt.name})
        if reference.get("type") == "ref/resource" and isinstance(uri, str):
            owner = aggregator.find_owner(uri)
            return None if owner is None else (owner, cast(JsonObject, reference))
        return None
