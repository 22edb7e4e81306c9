"""How a call that did not complete is told to the model, by every face in the same words."""

from mcp_dispatch.model.outcome import Cancelled

_BEGIN, _END = "<tool_use_error>", "</tool_use_error>"


def error_text(message: str) -> str:
    return f"{_BEGIN}{message}{_END}"


def for_people(text: str) -> str:
    """An error without the marks that models know it by."""
    return text.removeprefix(_BEGIN).removesuffix(_END)


def cancelled_text(cancelled: Cancelled) -> str:
    reason = cancelled.reason.value
    if not cancelled.message:
        return error_text(f"The call was cancelled ({reason}).")
    return error_text(f"The call was cancelled ({reason}): {cancelled.message}.")
