"""`resources/*`: what is kept here is read here; everything else belongs to a server behind us."""

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from anyio import to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.markers import escape_markers
from mcp_dispatch.results.media import guess_mime_type
from mcp_dispatch.results.pages import (
    PAGE_BYTES,
    CannotRead,
    ResultPage,
    find_stored_file,
    is_text,
    read_page,
)
from mcp_dispatch.results.store import URI_PREFIX
from mcp_dispatch.server.backend import Backend
from mcp_dispatch.server.list_changed import build_list_result
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.wire import sdk

RESOURCE_NOT_FOUND = -32002
"""Up to 2025-11-25; since then it is an invalid parameter."""


class LocalResources(Protocol):
    """Resources of our own, under a scheme that no server behind us may claim."""

    def covers(self, uri: str) -> bool: ...

    async def read(self, uri: str, scope: Scope) -> JsonObject | None:
        """The result of `resources/read`; None where this scope has no such resource."""
        ...


class ResourceHandler:
    def __init__(self, backend: Backend, proxy: UpstreamProxy) -> None:
        self._backend = backend
        self._proxy = proxy

    async def list_resources(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backend.wait_for_offers()
        return build_list_result(
            ctx, "resources", self._exclude_local(offered.list_resources(), "uri")
        )

    async def list_templates(self, ctx: sdk.Context) -> JsonObject:
        offered = await self._backend.wait_for_offers()
        templates = self._exclude_local(offered.list_templates(), "uriTemplate")
        return build_list_result(ctx, "resourceTemplates", templates)

    def _exclude_local(self, entries: Iterable[JsonObject], key: str) -> list[Json]:
        """Nobody else lists what is under a scheme of ours."""
        local = self._backend.local_resources
        return [each for each in entries if local is None or not local.covers(str(each.get(key)))]

    async def read(self, ctx: sdk.Context) -> JsonObject:
        uri = parse_uri(ctx)
        local = self._backend.local_resources
        if local is not None and local.covers(uri):
            found = await local.read(uri, self._backend.find_scope(ctx))
            if found is None:
                raise build_not_found_error(ctx, uri)
            return _add_cache_hint(ctx, found)
        owner = (await self._backend.wait_for_offers()).find_owner(uri)
        if owner is None:
            raise build_not_found_error(ctx, uri)
        try:
            return _add_cache_hint(ctx, await self._proxy.forward(ctx, owner))
        except MCPError as error:
            if error.code == RESOURCE_NOT_FOUND and sdk.is_modern(ctx):
                raise MCPError(INVALID_PARAMS, error.message, error.data) from error
            raise


def parse_uri(ctx: sdk.Context) -> str:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: uri must be a string")
    return uri


def build_not_found_error(ctx: sdk.Context, uri: str) -> MCPError:
    code = INVALID_PARAMS if sdk.is_modern(ctx) else RESOURCE_NOT_FOUND
    return MCPError(code, "Resource not found", {"uri": uri})


def _add_cache_hint(ctx: sdk.Context, result: JsonObject) -> JsonObject:
    """Since 2026-07-28 a result of reading says for how long it holds."""
    if result.get("resultType") == "input_required":
        return result
    return {"ttlMs": 0, "cacheScope": "private", **result} if sdk.is_modern(ctx) else result


RESULT_SCHEME = "dispatch:"
PAGE_META = "mcp-dispatch/page"

_QUERY_PATTERN = re.compile(r"(?:offset=([0-9]{1,18}))?")


class StoredResultResources:
    """What `resources/read` answers out of the results directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def covers(self, uri: str) -> bool:
        return uri.lower().startswith(RESULT_SCHEME)

    async def read(self, uri: str, scope: Scope) -> JsonObject | None:
        address, _, query = uri.partition("?")
        if not address.startswith(URI_PREFIX):
            return None
        offset = _parse_offset(query)
        id = address.removeprefix(URI_PREFIX)
        path = await to_thread.run_sync(find_stored_file, self._directory, id, scope.is_delivered)
        if path is None:
            return None
        try:
            page = await to_thread.run_sync(read_page, path, offset)
        except CannotRead as problem:
            raise MCPError(INVALID_PARAMS, str(problem), {"uri": uri}) from problem
        return {"contents": _build_contents(uri, address, path, page)}


def _parse_offset(query: str) -> int:
    found = _QUERY_PATTERN.fullmatch(query)
    if found is None:
        raise MCPError(
            INVALID_PARAMS, f"a kept result takes one query, offset=<bytes>; got {query[:100]!r}"
        )
    return int(found.group(1) or 0)


def _build_contents(uri: str, address: str, path: Path, page: ResultPage) -> list[Json]:
    whole = page.start == 0 and page.end == page.size
    meta: JsonObject = {"offset": page.start, "end": page.end, "size": page.size}
    content: JsonObject = {"uri": uri}
    if is_text(path):
        content["mimeType"] = guess_mime_type(path) if whole else "text/plain"
        content["text"] = escape_markers(page.content.decode("utf-8", "replace"))
    else:
        content["mimeType"] = guess_mime_type(path)
        content["blob"] = base64.b64encode(page.content).decode("ascii")
    if page.end >= page.size:
        return [{**content, "_meta": {PAGE_META: meta}}]
    following = f"{address}?offset={page.end}"
    told = (
        f"[Bytes {page.start}-{page.end} of {page.size}, in pages of at most {PAGE_BYTES};"
        f" the next page is {following}]"
    )
    notice: JsonObject = {"uri": following, "mimeType": "text/plain", "text": told}
    return [{**content, "_meta": {PAGE_META: {**meta, "next": following}}}, notice]
