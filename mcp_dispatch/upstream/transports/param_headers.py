"""Arguments that 2026-07-28 repeats in HTTP headers, for proxies that do not read bodies."""

from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.upstream.pagination import Listing
from mcp_dispatch.wire.sdk import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map


class ParamHeaders:
    """The header mappings of the tools of one server, from its last list."""

    def __init__(self) -> None:
        self._maps: dict[str, dict[tuple[str, ...], str]] = {}

    def update(self, listing: Listing) -> Listing:
        """Read the mappings and return the list without tools whose mapping is invalid.

        A client must not call such tools.
        """
        kept: list[JsonObject] = []
        maps: dict[str, dict[tuple[str, ...], str]] = {}
        left_out: list[str] = []
        for tool in listing.entries:
            name, schema = str(tool.get("name")), tool.get("inputSchema")
            if find_invalid_x_mcp_header(schema) is not None:
                left_out.append(name)
                continue
            kept.append(tool)
            repeated = x_mcp_header_map(schema)
            if repeated:
                maps[name] = repeated
        self._maps = maps
        return listing if not left_out else Listing(tuple(kept), _describe_problem(left_out))

    def build_headers(self, params: JsonObject) -> dict[str, str]:
        """Return the headers for a `tools/call` with these parameters."""
        name, arguments = params.get("name"), params.get("arguments")
        repeated = self._maps.get(name) if isinstance(name, str) else None
        given: dict[str, Json] = arguments if isinstance(arguments, dict) else {}
        return mcp_param_headers(repeated, given) if repeated else {}


def _describe_problem(names: list[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in names[:5])
    return f"marks parameters of {shown} for headers in a way that is not allowed; left out"
