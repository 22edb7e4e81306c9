"""What `doctor` says of upstream servers, without starting any: what they were when last tried."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mcp_dispatch.model.names import rule_name
from mcp_dispatch.policy.rules.lint import BUILT_INS
from mcp_dispatch.registry.names import Naming, NamingStyle, exposed_name
from mcp_dispatch.settings.models import NamingSettings
from mcp_dispatch.upstream.cache import Known, Memory
from mcp_dispatch.upstream.config.model import Launch, ServerConfig
from mcp_dispatch.upstream.sanitize import one_line
from mcp_dispatch.upstream.transports.process import child_environment


def of_programs(
    servers: Sequence[ServerConfig], environ: Mapping[str, str], root: Path | None
) -> Iterator[str]:
    """Programs that cannot be started."""
    for server in servers:
        if isinstance(server.reach, Launch) and not server.disabled:
            path = child_environment(server.reach, environ).get("PATH", "")
            command = server.reach.command
            place = str((root or Path.cwd()) / command) if "/" in command else command
            if shutil.which(place, path=path) is None:
                yield (
                    f"{server.file}: mcpServers.{server.name}.command: no program {command!r} can "
                    "be found; install it, or name it by its whole path"
                )


def of_catalogue(
    servers: Sequence[ServerConfig], state_dir: Path, naming: NamingSettings
) -> Iterator[str]:
    """What is known of them from before: failures, changed definitions, names that are taken."""
    memory = Memory(state_dir / "catalogue")
    found = [(server, memory.recall(server.key) or Known()) for server in servers]
    for server, known in found:
        if known.problem is not None:
            log = state_dir / "logs" / f"{server.name}.stderr.log"
            yield f"server {server.name}: when it was last tried it {known.problem}; see {log}"
        for change in known.changes:
            day = datetime.fromtimestamp(change.at, UTC).strftime("%Y-%m-%d")
            what = "; ".join(map(one_line, change.what))
            yield f"server {server.name}: {one_line(change.tool)} changed on {day}: {what}"
        for tool, reason in known.refused:
            yield f"server {server.name}: {one_line(tool)} is held back: its inputSchema {reason}"
    yield from _losers(found, naming)


def _losers(found: Sequence[tuple[ServerConfig, Known]], settings: NamingSettings) -> Iterator[str]:
    naming = Naming(NamingStyle(settings.style), settings.max_length, BUILT_INS)
    owners: dict[str, str] = {}
    for server, known in found:
        for name in sorted(str(tool.get("name")) for tool in known.tools):
            exposed = exposed_name(
                server.name, server.tools.rename.get(name, name), naming, server.prefix
            )
            rule = rule_name(server.name, name)
            owner = owners.setdefault(exposed, rule)
            if owner != rule:
                yield f"{rule} is not listed: {owner} has the name {exposed}; call it as {rule}"
