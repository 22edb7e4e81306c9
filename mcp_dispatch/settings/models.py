"""The shape of a settings file: Claude Code's, plus one object of our own, `dispatch`."""

import logging
import re
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from mcp_dispatch.model.json import JsonObject


class PermissionMode(Enum):
    """How much runs without a question."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS_PERMISSIONS = "bypassPermissions"


ModeName = Literal[
    "default", "manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto"
]


class _Section(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, alias_generator=to_camel)


class _OwnSection(_Section):
    """A part of `dispatch`: a key that we do not know is a typo."""

    model_config = ConfigDict(extra="forbid")


class Permissions(_Section):
    """`permissions`. Rules are read one by one, beside this model, with their lines."""

    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    default_mode: ModeName | None = None
    additional_directories: list[str] = []
    block_reads_outside_working_directories: bool = False
    block_writes_outside_working_directories: bool = False
    deny_instead_of_prompting: bool = False
    disable_bypass_permissions_mode: Literal["disable"] | None = None


class NamingSettings(_OwnSection):
    """How upstream tools are named in the list."""

    style: Literal["server", "canonical", "bare"] = "server"
    max_length: Annotated[int, Field(ge=16, le=64)] = 45


class ConcurrencySettings(_OwnSection):
    """Calls that arrive within `batch_window_ms` of the first of them belong together."""

    max: Annotated[int, Field(ge=1)] = 10
    batch_window_ms: Annotated[int, Field(ge=0)] = 250
    sibling_abort: Literal["shell", "all", "off"] = "shell"


class ApprovalSettings(_OwnSection):
    timeout_seconds: Annotated[float, Field(gt=0)] = 50


ResultChars = Annotated[int, Field(ge=1000)]


class ResultSettings(_OwnSection):
    """Over how many characters a result is kept on disk: of one tool (by the name that rules
    know), of one server, of all; null means without a limit. And for how long it is kept."""

    max_chars: ResultChars | None = None
    servers: dict[str, ResultChars | None] = {}
    tools: dict[str, ResultChars | None] = {}
    max_image_bytes: Annotated[int, Field(ge=1000)] = 3_750_000
    retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30
    max_total_bytes: Annotated[int, Field(ge=1_000_000)] = 2 * 1024**3


class ToolSearchSettings(_OwnSection):
    """When the tools of upstream servers wait behind `tool_search` instead of being listed.

    `auto` does so when there are more of them than `max_tools`, or when their definitions are
    estimated to take more than `max_tokens`.
    """

    mode: Literal["auto", "always", "never"] = "auto"
    max_tools: Annotated[int, Field(ge=0)] = 40
    max_tokens: Annotated[int, Field(ge=0)] = 10_000


class RuleTestCall(_OwnSection):
    """A call as a client would make it."""

    tool: str
    input: dict[str, Any] = {}


class RuleTest(_OwnSection):
    """An example of what the rules are meant to say. `call` is a tool with its input, or short for
    it the text of a rule that means exactly this call, as in `Bash(git push)`."""

    call: RuleTestCall | str
    expect: Literal["allow", "ask", "deny"]


class HttpSettings(_OwnSection):
    """What one client of `serve --http` may cost, and the names that clients may call us by.

    A host is a name or an address, with a port or without (then any port); an origin is
    `scheme://host` or `scheme://host:port`. Loopback and the address that is served need no entry.
    """

    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 1024 * 1024
    max_sessions: Annotated[int, Field(ge=1)] = 1000
    session_idle_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1800


class UpstreamSettings(_OwnSection):
    """What holds for every upstream whose own entry does not say otherwise, and how long a first
    `tools/list` waits for servers that nobody has seen before. The timeouts are in milliseconds."""

    timeout: Annotated[int, Field(ge=1000)] | None = None
    connect_timeout: Annotated[int, Field(ge=1000)] = 30_000
    idle_timeout: Annotated[int, Field(ge=1000)] | Literal[0] | None = None
    max_message_bytes: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024
    restart: bool = True
    sharing: Literal["exclusive", "server", "shared"] = "exclusive"
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    inherit_env: bool | list[str] = []
    always_load: bool = False
    lazy: bool = False
    first_list_seconds: Annotated[float, Field(ge=0, le=60)] = 10


class ServerMatch(_Section):
    """Servers that an administrator means: by name, by the exact command, or by a pattern for the
    address, in which `*` stands for anything."""

    model_config = ConfigDict(extra="forbid")

    server_name: str | None = None
    server_command: list[str] | None = None
    server_url: str | None = None

    @model_validator(mode="after")
    def _require_one_field(self) -> "ServerMatch":
        if len(self.model_fields_set) != 1:
            raise ValueError("expected one of serverName, serverCommand and serverUrl")
        return self


def _as_object(naming: object) -> object:
    return {"style": naming} if isinstance(naming, str) else naming


class DispatchSettings(_OwnSection):
    """`dispatch`. `tools` names the built-ins that are offered; null offers them all."""

    naming: Annotated[
        NamingSettings,
        BeforeValidator(_as_object, json_schema_input_type=NamingSettings | str),
    ] = NamingSettings()
    tools: list[str] | None = None
    tool_search: ToolSearchSettings = ToolSearchSettings()
    concurrency: ConcurrencySettings = ConcurrencySettings()
    approvals: ApprovalSettings = ApprovalSettings()
    results: ResultSettings = ResultSettings()
    upstreams: UpstreamSettings = UpstreamSettings()
    rule_tests: list[RuleTest] = []
    http: HttpSettings = HttpSettings()


class SettingsFile(_Section):
    """A whole file. Other top-level keys belong to other programs and are ignored."""

    permissions: Permissions = Permissions()
    dispatch: DispatchSettings = DispatchSettings()
    hooks: dict[str, Any] = {}
    env: dict[str, str] = {}
    mcp_servers: dict[str, Any] = {}
    disabled_mcpjson_servers: list[str] = []
    allowed_mcp_servers: list[ServerMatch] | None = None
    denied_mcp_servers: list[ServerMatch] = []
    disable_all_hooks: bool | None = None
    bash_output_max_chars: Annotated[int, Field(ge=4_000, le=128_000)] | None = None
    allow_managed_hooks_only: bool = False
    allow_managed_permission_rules_only: bool = False
    allowed_http_hook_urls: list[str] | None = None
    http_hook_allowed_env_vars: list[str] | None = None


def build_settings_json_schema() -> JsonObject:
    """The JSON schema of a settings file, for editors."""
    schema: JsonObject = SettingsFile.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


CONCURRENCY_VARIABLE = "MCP_DISPATCH_MAX_CONCURRENCY"

logger = logging.getLogger(__name__)


def read_concurrency_limit(environ: Mapping[str, str]) -> int | None:
    """What the variable says, which is meant for one start and so comes before every file."""
    given = environ.get(CONCURRENCY_VARIABLE)
    if given is None:
        return None
    if re.fullmatch("0*[1-9][0-9]{0,8}", given):
        return int(given)
    logger.warning(
        "%s: expected a number over 0, got %r; it is ignored", CONCURRENCY_VARIABLE, given
    )
    return None
