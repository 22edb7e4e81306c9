"""The hooks of this server: told of a call before it is judged and after it has run."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from mcp_dispatch.hooks.command import CommandRunner
from mcp_dispatch.hooks.config import Hook, HookConfig, Matched
from mcp_dispatch.hooks.document import Untellable, after_document, before_document
from mcp_dispatch.hooks.events import Event, hook_name
from mcp_dispatch.hooks.merge import Spoken, afterword, heeded, review
from mcp_dispatch.hooks.output import Failure, HookAnswer, read_answer
from mcp_dispatch.hooks.text import first_line, visible
from mcp_dispatch.model.calls import Afterword, CheckedCall, Executed, Review
from mcp_dispatch.model.circumstances import Circumstances
from mcp_dispatch.model.decision import Effect, Tier, Vote
from mcp_dispatch.processes.children import Children

logger = logging.getLogger(__name__)


class Hooks:
    """All matching hooks of an event run side by side, each to its end."""

    def __init__(
        self,
        config: HookConfig,
        children: Children,
        environ: Mapping[str, str],
        *,
        workspace: Path | None = None,
    ) -> None:
        self._config = config
        self._commands = CommandRunner(children, environ, workspace)

    @classmethod
    def none(cls) -> "Hooks":
        return cls(HookConfig(), Children(), {})

    async def before(self, checked: CheckedCall, circumstances: Circumstances) -> Review:
        """PreToolUse. A call that hooks cannot be told of is denied: a guard would be blind."""
        tool = checked.tool.rule_name
        matching = self._config.matching(Event.PRE_TOOL_USE, tool)
        if not matching:
            return Review()
        try:
            document = before_document(checked, circumstances)
        except Untellable as error:
            origin = matching[0].hook.origin
            return Review(votes=(Vote(Tier.DENY, Effect.DENY, str(error), origin),))
        return review(tool, await self._hear(tool, matching, document, circumstances))

    async def after(self, executed: Executed, circumstances: Circumstances) -> Afterword:
        """PostToolUse, or PostToolUseFailure where the result is an error."""
        tool = executed.permitted.tool.rule_name
        failed = executed.result.is_error
        event = Event.POST_TOOL_USE_FAILURE if failed else Event.POST_TOOL_USE
        matching = self._config.matching(event, tool)
        if not matching:
            return Afterword()
        try:
            document = after_document(event, executed, circumstances)
        except Untellable as error:
            logger.error("%s hooks do not run: %s", visible(hook_name(event, tool)), error)
            return Afterword()
        return afterword(tool, await self._hear(tool, matching, document, circumstances))

    async def _hear(
        self,
        tool: str,
        matching: Sequence[Matched],
        document: bytes,
        circumstances: Circumstances,
    ) -> list[Spoken]:
        """Their answers in configuration order, whichever came first."""
        spoken: dict[int, Spoken] = {}

        async def listen(place: int, matched: Matched) -> None:
            answer = await self._answer(tool, matched.hook, document, circumstances)
            spoken[place] = heeded(matched, answer, tool)
            _log(tool, spoken[place])

        async with anyio.create_task_group() as tasks:
            for place, matched in enumerate(matching):
                tasks.start_soon(listen, place, matched)
        return [spoken[place] for place in range(len(matching))]

    async def _answer(
        self, tool: str, hook: Hook, document: bytes, circumstances: Circumstances
    ) -> HookAnswer:
        heard = await self._commands.run(hook.action, document, circumstances)
        if isinstance(heard, Failure):
            return HookAnswer(failure=heard)
        if heard.stderr:
            _say(logging.DEBUG, tool, hook, f"stderr: {first_line(heard.stderr)}")
        return read_answer(hook.event, heard)


def _log(tool: str, spoken: Spoken) -> None:
    answer = spoken.answer
    if answer.failure is not None:
        _say(logging.WARNING, tool, spoken.hook, f"hook error: {answer.failure.message}")
    for note in answer.notes:
        _say(logging.WARNING, tool, spoken.hook, note)
    if answer.message:
        _say(logging.INFO, tool, spoken.hook, f"says: {answer.message}")


def _say(level: int, tool: str, hook: Hook, what: str) -> None:
    name = hook_name(hook.event, tool)
    logger.log(level, "%s [%s]: %s", visible(name), hook.action.label, visible(what))
