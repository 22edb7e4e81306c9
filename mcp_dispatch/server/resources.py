"""`resources/*`: stored results are read here, other resources are forwarded to their upstream."""

import base64
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from anyio import to_thread
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
from mcp_dispatch.server.backend import Backend, wait_for_offers
from mcp_dispatch.server.list_changed import build_list_result
from mcp_dispatch.server.proxy import UpstreamProxy
from mcp_dispatch.server.sessions import ClientSessions
from mcp_dispatch.wire import sdk
from mcp_dispatch.wire.sdk import MCPError

RESOURCE_NOT_FOUND: Final = -32002
"""The error code up to 2025-11-25; since then the error is an invalid parameter."""

RESULT_SCHEME: Final = "dispatch:"
PAGE_META: Final = "mcp-dispatch/page"
_QUERY_PATTERN: Final = re.compile(r"(?:offset=([0-9]{1,18}))?")


class ResourceHandler:
    """Handles resources: stored results by itself, others through their upstream."""

    def __init__(self, backend: Backend, sessions: ClientSessions, proxy: UpstreamProxy) -> None:
        self._backend = backend
        self._sessions = sessions
        self._proxy = proxy

    async def list_resources(self, ctx: sdk.Context) -> JsonObject:
        aggregator = await wait_for_offers(self._backend)
        resources = _exclude_stored_results(aggregator.list_resources(), "uri")
        return build_list_result(ctx, "resources", resources)

    async def list_templates(self, ctx: sdk.Context) -> JsonObject:
        aggregator = await wait_for_offers(self._backend)
        templates = _exclude_stored_results(aggregator.list_templates(), "uriTemplate")
        return build_list_result(ctx, "resourceTemplates", templates)

    async def read(self, ctx: sdk.Context) -> JsonObject:
        uri = parse_uri(ctx)
        if _is_stored_result(uri):
            result = await self._read_stored_result(uri, self._sessions.find_scope(ctx))
            if result is None:
                raise build_not_found_error(ctx, uri)
            return _add_cache_hint(ctx, result)
        owner = (await wait_for_offers(self._backend)).find_owner(uri)
        if owner is None:
            raise build_not_found_error(ctx, uri)
        try:
            return _add_cache_hint(ctx, await self._proxy.forward(ctx, owner))
        except MCPError as error:
            if error.code == RESOURCE_NOT_FOUND and sdk.is_modern(ctx):
                raise MCPError(INVALID_PARAMS, error.message, error.data) from error
            raise

    async def _read_stored_result(self, uri: str, scope: Scope) -> JsonObject | None:
        """Return the `resources/read` result, or None if the scope has no such stored result."""
        address, _, query = uri.partition("?")
        if not address.startswith(URI_PREFIX):
            return None
        offset = _parse_offset(query)
        id = address.removeprefix(URI_PREFIX)
        directory = self._backend.results.directory
        path = await to_thread.run_sync(find_stored_file, directory, id, scope.is_delivered)
        if path is None:
            return None
        try:
            page = await to_thread.run_sync(read_page, path, offset)
        except CannotRead as problem:
            raise MCPError(INVALID_PARAMS, str(problem), {"uri": uri}) from problem
        return {"contents": _build_contents(uri, address, path, page)}


def parse_uri(ctx: sdk.Context) -> str:
    uri = (ctx.params or {}).get("uri")
    if not isinstance(uri, str):
        raise MCPError(INVALID_PARAMS, f"{ctx.method}: uri must be a string")
    return uri


def build_not_found_error(ctx: sdk.Context, uri: str) -> MCPError:
    code = INVALID_PARAMS if sdk.is_modern(ctx) else RESOURCE_NOT_FOUND
    return MCPError(code, "Resource not found", {"uri": uri})


def _is_stored_result(uri: str) -> bool:
    return uri.lower().startswith(RESULT_SCHEME)


def _exclude_stored_results(entries: Iterable[JsonObject], key: str) -> list[Json]:
    """Drop entries of upstreams that claim the scheme of stored results."""
    return [entry for entry in entries if not _is_stored_result(str(entry.get(key)))]


def _add_cache_hint(ctx: sdk.Context, result: JsonObject) -> JsonObject:
    """Add how long the content may be cached, which 2026-07-28 requires."""
    if result.get("resultType") == "input_required":
        return result
    return {"ttlMs": 0, "cacheScope": "private", **result} if sdk.is_modern(ctx) else result


def _parse_offset(query: str) -> int:
    match = _QUERY_PATTERN.fullmatch(query)
    if match is None:
        raise MCPError(
            INVALID_PARAMS, f"a kept result takes one query, offset=<bytes>; got {query[:100]!r}"
        )
    return int(match.group(1) or 0)


def _build_contents(uri: str, address: str, path: Path, page: ResultPage) -> list[Json]:
    """Return the page, followed by a note with the URI of the next page if there is one."""
    is_whole = page.start == 0 and page.end == page.size
    meta: JsonObject = {"offset": page.start, "end": page.end, "size": page.size}
    content: JsonObject = {"uri": uri}
    if is_text(path):
        content["mimeType"] = guess_mime_type(path) if is_whole else "text/plain"
        content["text"] = escape_markers(page.content.decode("utf-8", "replace"))
    else:
        content["mimeType"] = guess_mime_type(path)
        content["blob"] = base64.b64encode(page.content).decode("ascii")
    if page.end >= page.size:
        return [{**content, "_meta": {PAGE_META: meta}}]
    next_uri = f"{address}?offset={page.end}"
    text = (
        f"[Bytes {page.start}-{page.end} of {page.size}, in pages of at most {PAGE_BYTES};"
        f" the next page is {next_uri}]"
    )
    note: JsonObject = {"uri": next_uri, "mimeType": "text/plain", "text": text}
    return [{**content, "_meta": {PAGE_META: {**meta, "next": next_uri}}}, note]
