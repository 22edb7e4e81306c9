"""The environment of one call: what its stages share while the call runs."""

from mcp_dispatch.concurrency.admission import Slot
from mcp_dispatch.model.approval import Caller
from mcp_dispatch.model.calls import CheckedCall, Rewrite
from mcp_dispatch.model.errors import Refused
from mcp_dispatch.model.json import JsonObject
from mcp_dispatch.model.tools import CallContext, Sharing, ignore_progress
from mcp_dispatch.pipeline.batch import CallRun
from mcp_dispatch.pipeline.hook_env import HookClientBridge, MonotonicProgress, ScopeHookSink
from mcp_dispatch.pipeline.scope import Scope
from mcp_dispatch.pipeline.services import Services
from mcp_dispatch.pipeline.stages.check import check
from mcp_dispatch.pipeline.stages.validate import validate
from mcp_dispatch.policy.policy import LazyHiddenPaths, Policy
from mcp_dispatch.results.stale_files import FileSnapshot, take_snapshot


class CallEnv:
    """Created when the call has its slot. The hooks are those of that moment for the whole call;
    the policy is always the current one, because rules may change while a person is asked."""

    def __init__(
        self, run: CallRun, slot: Slot, scope: Scope, caller: Caller, services: Services
    ) -> None:
        self.run = run
        self.call = call = run.call
        self.slot = slot
        self.scope = scope
        self.caller = caller
        self.services = services
        snapshot = services.get_snapshot()
        self.hooks = snapshot.hooks

        wants_progress = caller.progress is not ignore_progress
        progress = MonotonicProgress(caller.progress) if wants_progress else None
        sink = ScopeHookSink(scope, services.results, services.journal, call.id, progress)
        self.hook_context = scope.create_hook_context(
            services.journal.path, snapshot.policy.mode.value, sink
        )
        self.context = CallContext(
            call_id=call.id,
            scope=scope,
            progress=progress.forward if progress else ignore_progress,
            meta=call.meta,
            is_hidden=LazyHiddenPaths(snapshot.policy, scope.cwd),
            client_bridge=HookClientBridge(
                scope.id, caller.client, scope=scope, services=services, slot=slot
            ),
            retry=call.call_retry.retry if call.call_retry else None,
        )

    @property
    def policy(self) -> Policy:
        return self.services.get_snapshot().policy

    async def recheck(self, checked: CheckedCall, arguments: JsonObject) -> CheckedCall:
        """Validate and check the call with `arguments`, and queue again if its sharing changed."""
        valid = validate(checked.valid.resolved, arguments)
        checked = await check(valid, self.context)
        if valid.sharing is not self.run.sharing:
            await self.slot.change_sharing(valid.sharing)
            self.run.admit(valid.sharing)
        return checked

    async def recheck_rewrite(self, checked: CheckedCall, rewrite: Rewrite) -> CheckedCall:
        """As `recheck`; a refusal names the hook that rewrote the arguments."""
        try:
            return await self.recheck(checked, rewrite.arguments)
        except Refused as refused:
            message = f"the arguments as rewritten by the hook {rewrite.by}: {refused}"
            raise Refused(refused.refusal.by, message) from refused

    def snapshot_files(self) -> FileSnapshot | None:
        """Record the state of the files that the scope has read; None for a shared call, which
        changes no files."""
        return take_snapshot(self.scope.files) if self.run.sharing is Sharing.EXCLUSIVE else None
