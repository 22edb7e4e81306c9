"""The names of upstream tools that `app/build.py` chooses from the settings."""

import pytest

from mcp_dispatch.app import build
from mcp_dispatch.settings.models import DispatchSettings
from mcp_dispatch.settings.settings import Settings
from mcp_dispatch.upstream.config.model import ServerConfig, StdioEndpoint


def test_a_tool_with_a_reserved_name_gets_the_prefix_of_its_server_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(dispatch=DispatchSettings.model_validate({"naming": "bare"}))
    server = ServerConfig(name="files", endpoint=StdioEndpoint("x"))

    expose = build.create_tool_namer(settings)
    names = [expose(server, tool) for tool in ("Read", "log", "Read")]

    assert names == ["files__Read", "log", "files__Read"]
    assert caplog.messages == ["Read of files is listed as files__Read: the name is ours"]
