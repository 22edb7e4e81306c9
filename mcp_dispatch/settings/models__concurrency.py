"""The one setting that a variable of the environment overrides: how many calls run at once."""

import logging
import re
from collections.abc import Mapping

VARIABLE = "MCP_DISPATCH_MAX_CONCURRENCY"

logger = logging.getLogger(__name__)


def limit_from(environ: Mapping[str, str]) -> int | None:
    """What the variable says, which is meant for one start and so comes before every file."""
    given = environ.get(VARIABLE)
    if given is None:
        return None
    if re.fullmatch("0*[1-9][0-9]{0,8}", given):
        return int(given)
    logger.warning("%s: expected a number over 0, got %r; it is ignored", VARIABLE, given)
    return None
