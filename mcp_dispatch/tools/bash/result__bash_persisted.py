"""The answer to a command whose output went to the results without passing through memory."""

from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import ContextChange, FileDelivered, ToolResult
from mcp_dispatch.model.tools__results import Replacement, Why
from mcp_dispatch.processes.output_file import Recording
from mcp_dispatch.results.markers import link, persisted_preview
from mcp_dispatch.results.preview import PREVIEW_BYTES, preview
from mcp_dispatch.results.store import Kept
from mcp_dispatch.tools.bash.result import Ending
from mcp_dispatch.tools.bash.result__bash_text import decoded


def persisted_result(
    ending: Ending,
    recording: Recording,
    kept: Kept,
    note: str,
    changes: tuple[ContextChange, ...],
) -> ToolResult:
    """`note` is what else there is to say of a command that did not fail."""
    # A little more than what is shown, so that the cut is made by the rules of every preview.
    shown = preview(decoded(recording.read(0, PREVIEW_BYTES * 2)))
    text = "\n".join(part for part in (persisted_preview(shown, kept), note) if part)
    response: JsonObject = {
        **ending.response(shown),
        "persistedOutputPath": str(kept.path),
        "persistedOutputSize": kept.size,
    }
    return ToolResult(
        {"content": [{"type": "text", "text": text}, link(kept, "text/plain")]},
        response,
        (*changes, FileDelivered(str(kept.path))),
        (Replacement(Why.STREAM, "text", kept.size, str(kept.path)),),
    )
