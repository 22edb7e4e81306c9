"""ResolvedCall -> ValidCall: the arguments fit the tool's JSON schema."""

from mcp_dispatch.model.calls import ResolvedCall, ValidCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy


def validate(resolved: ResolvedCall, arguments: JsonObject) -> ValidCall:
    """`arguments` are the call's own, or what a hook or an approver made of them."""
    tool = resolved.tool
    problems = tool.validator.problems(arguments)
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        plural = "s" if len(problems) > 1 else ""
        raise Refused(
            RefusedBy.SCHEMA,
            f"InputValidationError: the arguments of {tool.name} have {len(problems)} "
            f"problem{plural}; correct and call again:\n{listed}",
        )
    return ValidCall(resolved, arguments, tool.sharing(arguments))
