""" "Always allow": the user's own file for the workspace, and the settings read again at once."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.own_file import add_allow_rules

logger = logging.getLogger(__name__)


class AlwaysAllowed:
    """`file` says where it would be written now; None where it cannot be."""

    def __init__(self, file: Callable[[], Path | None], written: Callable[[], None]) -> None:
        self._file = file
        self._written = written

    @property
    def file(self) -> Path | None:
        return self._file()

    async def keep(self, file: Path, rules: Sequence[str], definitions: Mapping[str, str]) -> bool:
        """Whether the rules hold from now on. Where they cannot be written, the log says why."""
        try:
            await to_thread.run_sync(add_allow_rules, file, rules, definitions)
        except (OSError, ConfigError) as error:
            logger.error("always allow: %s is not kept: %s", ", ".join(rules), error)
            return False
        self._written()
        return True


NOWHERE = AlwaysAllowed(lambda: None, lambda: None)
