"""`mcp-dispatch untrust`: takes back what `trust` granted a workspace."""

import os
from pathlib import Path

from mcp_dispatch.cli.trust import WorkspaceArgument, fail, plain, refuse_to_models


def untrust(directory: WorkspaceArgument) -> None:
    """Take back the trust in a workspace. Its deny and ask rules still hold."""
    from mcp_dispatch.settings.layers import user_config_dir
    from mcp_dispatch.settings.trust import remove_record

    refuse_to_models("untrust")
    root = _real(directory)
    try:
        was_trusted = remove_record(user_config_dir(os.environ), root)
    except OSError as error:
        fail(f"cannot take back the trust in {root}: {error.strerror}")
    if was_trusted:
        print(f"{plain(str(root))} is no longer trusted.")
    else:
        print(f"{plain(str(root))} was not trusted.")


def _real(directory: Path) -> Path:
    """The directory may be gone already: what remains of its path is taken as it is."""
    try:
        return directory.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        fail(f"{directory}: {error}")
