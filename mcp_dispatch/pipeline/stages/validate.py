"""ResolvedCall -> ValidCall: validate the arguments against the tool's JSON schema."""

import logging

from mcp_dispatch.model.calls import ResolvedCall, ValidCall
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.outcome import RefusedBy
from mcp_dispatch.model.tools import Sharing, Tool

logger = logging.getLogger(__name__)


def validate(resolved: ResolvedCall, arguments: JsonObject) -> ValidCall:
    """`arguments` are those of the call, or those that a hook has rewritten."""
    tool = resolved.tool
    problems = tool.validator.find_problems(arguments)
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        plural = "s" if len(problems) > 1 else ""
        raise Refused(
            RefusedBy.SCHEMA,
            f"InputValidationError: the arguments of {tool.name} have {len(problems)} "
            f"problem{plural}; correct and call again:\n{listed}{_hint(resolved)}",
        )
    return ValidCall(resolved, arguments, _decide_sharing(tool, arguments))


def _hint(resolved: ResolvedCall) -> str:
    """Tell a model that has not seen the schema how to load it."""
    if not resolved.schema_unseen:
        return ""
    name = resolved.tool.name
    return f'\nIts schema was not loaded yet: call tool_search with "select:{name}" first.'


def _decide_sharing(tool: Tool, arguments: JsonObject) -> Sharing:
    try:
        return tool.decide_sharing(arguments)
    except Exception:  # a tool's code may raise anything; the call then runs alone
        logger.exception("tool %s cannot tell whether its call may share", tool.rule_name)
        return Sharing.EXCLUSIVE
