"""How a call that did not complete is told to the model, by every face in the same words."""

from mcp_dispatch.model.outcome import Cancelled


def error_text(message: str) -> str:
    return f"<tool_use_error>{message}</tool_use_error>"


def cancelled_text(cancelled: Cancelled) -> str:
    reason = cancelled.reason.value
    if not cancelled.message:
        return error_text(f"The call was cancelled ({reason}).")
    return error_text(f"The call was cancelled ({reason}): {cancelled.message}.")
