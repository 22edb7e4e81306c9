"""`mcp-dispatch schema`: the JSON schema of a settings file, for editors."""

import json


def schema() -> None:
    """Print the JSON schema of a settings file, for your editor."""
    from mcp_dispatch.settings.models import build_settings_json_schema

    print(json.dumps(build_settings_json_schema(), indent=2))
