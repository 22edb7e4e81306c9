"""How a hook's wish to stop is shown: as text, and in `_meta`, since the client owns the loop."""

from mcp_dispatch.model.json import JsonObject

STOPPED_META = "mcp-dispatch/stopped"


def stop_notes(reason: str | None) -> tuple[str, ...]:
    return () if reason is None else (f"A hook asks to stop here: {reason}",)


def marked(wire: JsonObject, stopped: str | None) -> JsonObject:
    """The result with the reason to stop in its `_meta`, where there is one."""
    if stopped is None:
        return wire
    meta = wire.get("_meta")
    known = meta if isinstance(meta, dict) else {}
    return {**wire, "_meta": {**known, STOPPED_META: stopped}}
