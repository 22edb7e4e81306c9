"""Kept results as resources: `dispatch://results/<id>`, a page at a time, for their own scope."""

import base64
import re
from pathlib import Path

from anyio import to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.results.markers import harmless
from mcp_dispatch.results.media import mime_type_of
from mcp_dispatch.results.pages import PAGE_BYTES, CannotRead, Page, find, is_text, read_page
from mcp_dispatch.results.store import URI_PREFIX

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
