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
from mcp_dispatch.results.markers import harmless
from mcp_dispatch.results.media import mime_type_of
from mcp_dispatch.results.pages import PAGE_BYTES, CannotRead, Page, find, is_text, read_page
from mcp_dispatch.results.store import URI_PREFIX
from mcp_dispatch.server.backend import Backstage
from mcp_dispatch.server.list_changed import listing
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


SCHEME = "dispatch:"
PAGE_META = "mcp-dispatch/page"

_QUERY = re.compile(r"(?:offset=([0-9]{1,18}))?")


class KeptResults:
    """What `resources/read` answers out of the results directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def owns(self, uri: str) -> bool:
        return uri.lower().startswith(SCHEME)

    async def read(self, uri: str, scope: Scope) -> JsonObject | None:
        address, _, query = uri.partition("?")
        if not address.startswith(URI_PREFIX):
            return None
        offset = _offset(query)
        id = address.removeprefix(URI_PREFIX)
        path = await to_thread.run_sync(find, self._directory, id, scope.delivered)
        if path is None:
            return None
        try:
            page = await to_thread.run_sync(read_page, path, offset)
        except CannotRead as problem:
            raise MCPError(INVALID_PARAMS, str(problem), {"uri": uri}) from problem
        return {"contents": _contents(uri, address, path, page)}


def _offset(query: str) -> int:
    found = _QUERY.fullmatch(query)
    if found is None:
        raise MCPError(
            INVALID_PARAMS, f"a kept result takes one query, offset=<bytes>; got {query[:100]!r}"
        )
    return int(found.group(1) or 0)


def _contents(uri: str, address: str, path: Path, page: Page) -> list[Json]:
    whole = page.start == 0 and page.end == page.size
    meta: JsonObject = {"offset": page.start, "end": page.end, "size": page.size}
    content: JsonObject = {"uri": uri}
    if is_text(path):
        content["mimeType"] = mime_type_of(path) if whole else "text/plain"
        content["text"] = harmless(page.content.decode("utf-8", "replace"))
    else:
        content["mimeType"] = mime_type_of(path)
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
