"""Tests of how settings files are loaded, merged and checked."""

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_dispatch.model.decision import Effect
from mcp_dispatch.model.errors import ConfigError
from mcp_dispatch.model.json import Json, JsonObject
from mcp_dispatch.settings.json_lines import JsonLeaf, RepeatedKey, parse_layout
from mcp_dispatch.settings.models import (
    DispatchSettings,
    NamingSettings,
    PermissionMode,
    build_settings_json_schema,
    read_concurrency_limit,
)
from mcp_dispatch.settings.problems import SettingsProblem, Severity
from mcp_dispatch.settings.settings import (
    FileState,
    Layer,
    LayerKind,
    LayerStatus,
    RawSection,
    RuleSettings,
    RuleText,
    Settings,
    SettingsReport,
    find_user_config_dir,
    load_settings,
)
from tests.support.paths import ROOT

CONFIGS = ROOT / "configs"


def build_naming(style: str, length: int) -> NamingSettings:
    return NamingSettings.model_validate({"style": style, "maxLength": length})


def write_file(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load_user(path: Path, content: object) -> Settings:
    return load_settings([Layer(LayerKind.USER, write_file(path / "settings.json", content))])


def list_problems(settings: Settings, folder: Path) -> list[str]:
    return [str(problem).removeprefix(f"{folder}/") for problem in settings.report.problems]


def test_settings_without_files_are_the_defaults():
    assert load_settings([]) == Settings()
    assert DispatchSettings().concurrency.max == 10
    assert DispatchSettings().approvals.timeout_seconds == 50
    assert DispatchSettings().naming == build_naming("server", 45)
    assert DispatchSettings().tools is None


def test_a_missing_user_file_is_listed_and_is_not_a_problem(tmp_path: Path):
    layer = Layer(LayerKind.USER, tmp_path / "settings.json")

    assert load_settings([layer]) == Settings(
        report=SettingsReport(
            files=(layer.path,), layer_statuses=(LayerStatus(layer, FileState.ABSENT),)
        )
    )


def test_every_rule_has_its_file_and_line_even_if_its_text_is_repeated(tmp_path: Path):
    text = """{
  "note": ["Bash(rm:*)"],
  "permissions": {
    "allow": ["Read", "Bash(rm:*)",
      "Edit(a\\"]b)"],
    "deny": [
      "Bash(rm:*)",

      "Bash(rm:*)"
    ]
  }
}
"""
    file = write_file(tmp_path / "settings.json", text)

    settings = load_settings([Layer(LayerKind.FLAG, file)])

    def build_rule(effect: Effect, text: str, line: int) -> RuleText:
        return RuleText(effect, text, file, line, LayerKind.FLAG, tmp_path)

    assert settings == Settings(
        rules=RuleSettings(
            texts=(
                build_rule(Effect.ALLOW, "Read", 4),
                build_rule(Effect.ALLOW, "Bash(rm:*)", 4),
                build_rule(Effect.ALLOW, 'Edit(a"]b)', 5),
                build_rule(Effect.DENY, "Bash(rm:*)", 7),
                build_rule(Effect.DENY, "Bash(rm:*)", 9),
            )
        ),
        report=SettingsReport(
            files=(file,),
            layer_statuses=(LayerStatus(Layer(LayerKind.FLAG, file), FileState.READ),),
        ),
    )


def test_lists_of_all_layers_are_joined_and_scalars_come_from_the_highest_layer(tmp_path: Path):
    user = write_file(
        tmp_path / "user" / "settings.json",
        {
            "permissions": {
                "deny": ["Bash(rm:*)"],
                "defaultMode": "plan",
                "additionalDirectories": ["/one"],
                "blockReadsOutsideWorkingDirectories": True,
            },
            "dispatch": {"concurrency": {"max": 3}, "naming": "bare"},
        },
    )
    flag = write_file(
        tmp_path / "flag.json",
        {
            "permissions": {
                "allow": ["Read"],
                "defaultMode": "acceptEdits",
                "additionalDirectories": ["/two", "/one"],
                "blockReadsOutsideWorkingDirectories": False,
            },
            "dispatch": {"concurrency": {"max": 4}},
        },
    )

    settings = load_settings([Layer(LayerKind.USER, user), Layer(LayerKind.FLAG, flag)])

    assert [(rule.text, rule.layer, rule.anchor) for rule in settings.rules.texts] == [
        ("Read", LayerKind.FLAG, tmp_path),
        ("Bash(rm:*)", LayerKind.USER, tmp_path / "user"),
    ]
    assert settings.permissions.mode is PermissionMode.ACCEPT_EDITS
    assert settings.permissions.additional_directories == (Path("/two"), Path("/one"))
    assert settings.dispatch.concurrency.max == 4
    assert settings.dispatch.naming.style == "bare"
    assert settings.report.files == (flag, user)


def test_a_restricting_setting_applies_if_any_layer_enables_it(tmp_path: Path):
    def write_layer(kind: LayerKind, enabled: bool) -> Layer:
        keys = (
            "blockReadsOutsideWorkingDirectories",
            "blockWritesOutsideWorkingDirectories",
            "denyInsteadOfPrompting",
        )
        content = {"permissions": dict.fromkeys(keys, enabled)}
        return Layer(kind, write_file(tmp_path / f"{kind.value}.json", content))

    settings = load_settings(
        [write_layer(LayerKind.FLAG, False), write_layer(LayerKind.USER, True)]
    )

    assert settings.permissions.block_reads_outside
    assert settings.permissions.block_writes_outside
    assert settings.permissions.deny_instead_of_prompting


def test_the_later_of_two_flag_files_wins(tmp_path: Path):
    files = [
        write_file(tmp_path / f"{mode}.json", {"permissions": {"defaultMode": mode}})
        for mode in ("plan", "dontAsk")
    ]

    settings = load_settings([Layer(LayerKind.FLAG, file) for file in files])

    assert settings.permissions.mode is PermissionMode.DONT_ASK


@pytest.mark.parametrize(
    ("kind", "anchor"), [(LayerKind.PROJECT, "."), (LayerKind.LOCAL, "."), (LayerKind.USER, "own")]
)
def test_rules_of_a_workspace_file_are_anchored_at_the_workspace(
    tmp_path: Path, kind: LayerKind, anchor: str
):
    file = write_file(tmp_path / "own" / "settings.json", {"permissions": {"deny": ["Read(/a)"]}})

    (rule,) = load_settings([Layer(kind, file)]).rules.texts

    assert rule.anchor == tmp_path / anchor


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        # The wording for a trailing comma differs between versions of Python.
        ('{"a": 1,}', "not JSON: "),
        ('{"a": [1,]}', "not JSON: "),
        ('{} // "comment"', "not JSON: Extra data"),
        ('{"a": NaN}', "not JSON: NaN is not a JSON number"),
        ("[]", "expected an object at the top"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "nested too deeply: 65 levels, at most 64 are read"),
    ],
)
def test_an_invalid_user_file_is_ignored_and_an_invalid_flag_file_raises(
    tmp_path: Path, text: str, reason: str
):
    file = write_file(tmp_path / "settings.json", text)

    settings = load_settings([Layer(LayerKind.USER, file)])

    (problem,) = settings.report.problems
    assert problem.severity is Severity.ERROR
    assert reason in problem.message
    assert problem.message.endswith("; the whole file is ignored")
    assert settings.report.files == (file,)
    with pytest.raises(ConfigError) as raised:
        load_settings([Layer(LayerKind.FLAG, file)])
    assert str(raised.value).startswith(f"{file}: ")
    assert reason in str(raised.value)


def test_a_missing_flag_file_raises_a_config_error(tmp_path: Path):
    with pytest.raises(ConfigError) as raised:
        load_settings([Layer(LayerKind.FLAG, tmp_path / "no.json")])

    assert str(raised.value) == f"{tmp_path / 'no.json'}: no such file"


def test_a_folder_and_a_file_that_is_not_utf8_or_too_large_are_ignored(tmp_path: Path):
    (tmp_path / "latin").write_bytes(b'{"a": "\xe9"}')
    (tmp_path / "large").write_bytes(b" " * (2 * 1024 * 1024 + 1))
    names = {
        ".": "not a regular file",
        "latin": "not UTF-8 at byte 7",
        "large": "larger than 2,097,152 bytes",
    }

    for name, reason in names.items():
        (problem,) = load_settings([Layer(LayerKind.USER, tmp_path / name)]).report.problems
        assert problem.message == f"{reason}; the whole file is ignored"


def test_a_pipe_instead_of_a_file_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "settings.json")

    (problem,) = load_settings([Layer(LayerKind.USER, tmp_path / "settings.json")]).report.problems

    assert problem.message == "not a regular file; the whole file is ignored"


def test_thousands_of_invalid_entries_are_skipped_quickly(tmp_path: Path):
    numbers = list(range(20_000))
    content: JsonObject = {"permissions": {"additionalDirectories": [*numbers, "/a"]}}

    settings = load_user(tmp_path, content)

    assert settings.permissions.additional_directories == (Path("/a"),)
    assert len(settings.report.problems) == 20_000


def test_a_byte_order_mark_is_tolerated(tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_bytes(b'\xef\xbb\xbf{"permissions": {"deny": ["Bash"]}}')

    (rule,) = load_settings([Layer(LayerKind.USER, file)]).rules.texts

    assert (rule.text, rule.line) == ("Bash", 1)


def test_an_invalid_entry_is_skipped_and_reported_with_file_key_value_and_expectation(
    tmp_path: Path,
):
    settings = load_user(
        tmp_path,
        {
            "permissions": {
                "allow": ["Read", 42, ["Bash"]],
                "defaultMode": "yolo",
                "denyInsteadOfPrompting": "yes",
                "additionalDirectories": ["/a", 7],
            },
            "dispatch": {"approvals": {"timeoutSeconds": -1}, "concurrency": {"max": 5}},
            "env": {"A": "1", "B": 2},
            "somethingElse": {"is": "ignored"},
        },
    )

    assert [rule.text for rule in settings.rules.texts] == ["Read"]
    assert settings.permissions.additional_directories == (Path("/a"),)
    assert settings.dispatch == DispatchSettings.model_validate({"concurrency": {"max": 5}})
    assert list_problems(settings, tmp_path) == [
        "settings.json:1: permissions.allow[1]: expected a rule as a string, got 42; it is skipped",
        'settings.json:1: permissions.allow[2][0]: expected a rule as a string, got "Bash"; '
        "it is skipped",
        "settings.json: permissions.defaultMode: expected 'default', 'manual', 'acceptEdits', "
        "'plan', 'dontAsk', 'bypassPermissions' or 'auto', got \"yolo\"; it is skipped",
        "settings.json: permissions.additionalDirectories.1: expected a valid string, got 7; "
        "it is skipped",
        "settings.json: permissions.denyInsteadOfPrompting: expected a valid boolean, "
        'got "yes"; it is skipped',
        "settings.json: dispatch.approvals.timeoutSeconds: expected greater than 0, got -1; "
        "it is skipped",
        "settings.json: env.B: expected a valid string, got 2; it is skipped",
        "settings.json: env: not supported yet in settings files; it has no effect",
    ]


def test_a_deny_outside_a_list_still_denies_and_an_allow_outside_a_list_is_skipped(tmp_path: Path):
    settings = load_user(tmp_path, {"permissions": {"deny": "Bash(rm:*)", "allow": "Bash"}})

    assert [(rule.effect, rule.text) for rule in settings.rules.texts] == [
        (Effect.DENY, "Bash(rm:*)")
    ]
    assert list_problems(settings, tmp_path) == [
        'settings.json: permissions.allow: expected a valid list, got "Bash"; it is skipped',
        'settings.json: permissions.deny: expected a valid list, got "Bash(rm:*)"; '
        "it is taken as the only rule",
    ]


@pytest.mark.parametrize(
    ("dispatch", "key"),
    [
        ({"toolz": []}, "dispatch.toolz"),
        ({"concurrency": {"maximum": 3}}, "dispatch.concurrency.maximum"),
        ({"naming": {"maxLenght": 30}}, "dispatch.naming.maxLenght"),
        ({"approvals": {"timeout_seconds": 3}}, "dispatch.approvals.timeout_seconds"),
    ],
)
def test_an_unknown_key_under_dispatch_is_an_error(
    tmp_path: Path, dispatch: dict[str, object], key: str
):
    settings = load_user(tmp_path, {"dispatch": dispatch})

    assert settings.dispatch == DispatchSettings()
    assert settings.report.problems == (
        SettingsProblem(
            Severity.ERROR,
            tmp_path / "settings.json",
            key,
            "unknown key; it is skipped. Look for a typo",
        ),
    )


def test_an_unknown_key_under_permissions_is_reported(tmp_path: Path):
    settings = load_user(
        tmp_path, {"permissions": {"denny": ["Bash"], "disableAutoMode": "disable"}}
    )

    assert list_problems(settings, tmp_path) == [
        "settings.json: permissions.denny: unknown key; look for a typo"
    ]


def test_an_invalid_rule_test_is_an_error_and_the_others_are_kept(tmp_path: Path):
    good = {"call": {"tool": "Bash", "input": {"command": "ls"}}, "expect": "allow"}
    tests = [good, {"call": "Bash(rm)"}, {"call": 7, "expect": "deny"}]

    settings = load_user(tmp_path, {"dispatch": {"ruleTests": tests}})

    assert [(test.call, test.expect, test.line) for test in settings.rules.tests] == [
        (good["call"], Effect.ALLOW, 1)
    ]
    assert [problem.severity for problem in settings.report.problems] == [Severity.ERROR] * 3
    assert list_problems(settings, tmp_path)[0] == (
        "settings.json: dispatch.ruleTests.1: 'expect' is missing; it is skipped"
    )


def test_a_repeated_key_is_reported_and_only_its_deny_and_ask_rules_are_joined(tmp_path: Path):
    text = """{"permissions": {"deny": ["Bash(a)"], "allow": ["Bash(b)"]},
               "permissions": {"deny": ["Bash(c)"],
                               "allow": ["Bash(d)"]}}"""

    settings = load_user(tmp_path, text)

    assert [(rule.text, rule.line) for rule in settings.rules.texts] == [
        ("Bash(d)", 3),
        ("Bash(a)", 1),
        ("Bash(c)", 2),
    ]
    assert list_problems(settings, tmp_path) == [
        "settings.json:2: permissions: the key occurs twice; write it once. Of its rules, "
        "deny and ask all apply"
    ]


def test_unsupported_keys_are_kept_and_reported(tmp_path: Path):
    hooks: JsonObject = {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}
    content: JsonObject = {"hooks": hooks, "env": {"A": "1"}, "mcpServers": {}}
    file = write_file(tmp_path / "settings.json", content)
    layers = [Layer(LayerKind.USER, file)]

    settings = load_settings(layers)

    assert settings.hooks.sections == (RawSection(hooks, file, LayerKind.USER),)
    assert settings.processes.env == (RawSection({"A": "1"}, file, LayerKind.USER),)
    assert list_problems(settings, tmp_path) == [
        "settings.json: hooks: not supported yet in settings files; it has no effect",
        "settings.json: env: not supported yet in settings files; it has no effect",
    ]
    assert load_settings(layers, supported=frozenset({"hooks", "env"})).report.problems == ()


def test_the_modes_auto_and_manual_mean_default_and_auto_is_reported(tmp_path: Path):
    auto = load_user(tmp_path, {"permissions": {"defaultMode": "auto"}})
    manual = load_user(tmp_path, {"permissions": {"defaultMode": "manual"}})

    assert auto.permissions.mode is manual.permissions.mode is PermissionMode.DEFAULT
    assert list_problems(auto, tmp_path) == [
        "settings.json: permissions.defaultMode: there is no model here to decide; "
        '"auto" is treated as "default"'
    ]
    assert manual.report.problems == ()


def test_naming_is_a_string_or_an_object(tmp_path: Path):
    short = load_user(tmp_path, {"dispatch": {"naming": "canonical"}})
    full = load_user(tmp_path, {"dispatch": {"naming": {"style": "bare", "maxLength": 60}}})

    assert short.dispatch.naming == build_naming("canonical", 45)
    assert full.dispatch.naming == build_naming("bare", 60)


def test_the_config_directory_comes_from_the_environment_or_the_platform():
    assert find_user_config_dir({"MCP_DISPATCH_CONFIG_DIR": "/a/b"}) == Path("/a/b")
    assert find_user_config_dir({}).name == "mcp-dispatch"


def test_a_layout_has_the_line_of_each_value_and_the_repeated_keys():
    text = '{"a": [1, {"b": null}],\n "c": "x\\"\\n{",\n "a": [],\n "": {"": true}}'

    assert json.loads(text)
    found = parse_layout(text)
    assert found.leaves == (
        JsonLeaf(("a", 0), 1, 1),
        JsonLeaf(("a", 1, "b"), 1, None),
        JsonLeaf(("c",), 2, 'x"\n{'),
        JsonLeaf(("", ""), 4, True),
    )
    assert found.repeated_keys == (RepeatedKey(("a",), 3),)


ANY_JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)
SECTIONS = ("permissions", "dispatch", "hooks", "env", "mcpServers", "disableAllHooks")
INNER = (
    *("allow", "deny", "additionalDirectories", "defaultMode", "naming", "tools", "ruleTests"),
    *("concurrency", "results", "PreToolUse"),
)


@given(
    st.dictionaries(
        st.sampled_from(SECTIONS), st.dictionaries(st.sampled_from(INNER), ANY_JSON) | ANY_JSON
    )
)
def test_any_json_object_is_read_without_an_exception(
    tmp_path_factory: pytest.TempPathFactory, content: JsonObject
):
    folder = tmp_path_factory.getbasetemp() / "any-json"

    settings = load_user(folder, content)

    assert settings.report.layer_statuses[0].state is FileState.READ
    assert DispatchSettings.model_validate(settings.dispatch.model_dump(by_alias=True))


def test_the_json_schema_accepts_the_starter_file_and_refuses_typos():
    schema = build_settings_json_schema()
    starter = json.loads((CONFIGS / "starter.json").read_text(encoding="utf-8"))

    validator = jsonschema_rs.Draft202012Validator(schema)
    assert validator.is_valid(starter)
    assert validator.is_valid({"dispatch": {"naming": "bare", "tools": []}, "other": 1})
    assert not validator.is_valid({"dispatch": {"toolz": []}})
    assert not validator.is_valid({"permissions": {"deny": [1]}})


@pytest.mark.parametrize(
    ("value", "limit"), [("3", 3), ("007", 7), ("0", None), ("-1", None), ("ten", None), ("", None)]
)
def test_the_concurrency_variable_sets_the_limit_and_an_invalid_value_is_logged(
    value: str, limit: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_concurrency_limit({"MCP_DISPATCH_MAX_CONCURRENCY": value}) == limit
    assert bool(caplog.messages) is (limit is None)
