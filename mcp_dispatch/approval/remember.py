"""Saves "always allow" answers as rules in the user's own settings file of the workspace."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.settings.own_file import add_allow_rules

logger = logging.getLogger(__name__)


class AllowRuleWriter:
    """Writes allow rules and reports that the settings have changed.

    `find_file` returns the file to write to, or None if rules cannot be saved.
    """

    def __init__(
        self, find_file: Callable[[], Path | None], on_written: Callable[[], None]
    ) -> None:
        self._find_file = find_file
        self._on_written = on_written

    @property
    def file(self) -> Path | None:
        return self._find_file()

    async def save_rules(
        self, file: Path, rules: Sequence[str], definitions: Mapping[str, str]
    ) -> bool:
        """Save the rules and return whether they are in effect. A failure is logged."""
        try:
            await to_thread.run_sync(add_allow_rules, file, rules, definitions)
        except (OSError, ConfigError) as error:
            logger.error("always allow: %s is not kept: %s", ", ".join(rules), error)
            return False
        self._on_written()
        return True


NULL_RULE_WRITER = AllowRuleWriter(lambda: None, lambda: None)
