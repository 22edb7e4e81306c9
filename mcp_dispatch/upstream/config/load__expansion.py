"""`${VAR}` and `${VAR:-default}` in server entries: plain text, one pass, no shell."""

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The text with its variables filled in, and the names that had neither value nor default.

    Those stay as they were written, as do all other shell forms. A value that itself contains
    `${…}` is not expanded again.
    """
    unset: list[str] = []

    def value(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name in environ:
            return environ[name]
        if default is None:
            unset.append(name)
            return match.group(0)
        return default

    return _VARIABLE.sub(value, text), tuple(unset)
