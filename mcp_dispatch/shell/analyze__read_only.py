"""Whether a command only looks, in the directory and the environment where it would run."""

import os
from collections.abc import Mapping
from pathlib import Path

from mcp_dispatch.shell.analyze import Verdict, analyse
from mcp_dispatch.shell.arguments import Look
from mcp_dispatch.shell.ast import Plain
from mcp_dispatch.shell.git_config import names_no_program


def is_read_only(command: str, cwd: Path) -> bool:
    """Whether it can run beside others: it changes nothing, the working directory included."""
    analysis = analyse(command)
    if analysis.verdict is not Verdict.READ_ONLY or not isinstance(analysis.reading, Plain):
        return False
    moves = any(one.words[:1] and one.words[0].raw == "cd" for one in analysis.reading.commands)
    looks = [look for look in analysis.looks if look is not None]
    return not moves and all(
        only_looks(look, cwd, Path.home(), os.environ) for look in dict.fromkeys(looks)
    )


def only_looks(look: Look, directory: Path, home: Path, environ: Mapping[str, str]) -> bool:
    """Whether neither a variable nor the configuration of a repository makes it do more."""
    if any(name in environ for name in look.variables):
        return False
    return not look.repository or names_no_program(directory, home, environ)
