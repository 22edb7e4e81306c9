"""Tests of how the hooks section of settings files is parsed."""

from pathlib import Path

import pytest

from mcp_dispatch.hooks.actions import Action, HookCommand, HttpPost, UpstreamCall
from mcp_dispatch.hooks.config import Hook, HookConfig, HookSource, MatchedHook, parse_hooks
from mcp_dispatch.hooks.events import HookEventName
from mcp_dispatch.hooks.matcher import AllMatcher, InvalidMatcher, NameMatcher
from mcp_dispatch.model.decision import Origin
from mcp_dispatch.model.json import Json

FILE = Path("settings.json")
OTHER = Path("other.json")


def parse(raw: Json) -> tuple[HookConfig, tuple[str, ...]]:
    config, problems = parse_hooks([HookSource(raw, FILE)])
    return config, tuple(map(str, problems))


def build_pre_hooks(*entries: Json, matcher: str = "Bash") -> Json:
    return {"PreToolUse": [{"matcher": matcher, "hooks": list(entries)}]}


def build_command(text: str, **options: Json) -> Json:
    return {"type": "command", "command": text, **options}


def test_hooks_are_parsed_in_configuration_order() -> None:
    raw: Json = {
        "PostToolUse": [{"hooks": [build_command("a"), build_command("b")]}],
        "PreToolUse": [{"matcher": "Edit|Write", "hooks": [build_command("c", timeout=5)]}],
    }

    config, problems = parse(raw)

    assert problems == ()
    assert config == HookConfig(
        (
            Hook(HookEventName.POST_TOOL_USE, AllMatcher(), HookCommand("a"), FILE),
            Hook(HookEventName.POST_TOOL_USE, AllMatcher(), HookCommand("b"), FILE),
            Hook(
                HookEventName.PRE_TOOL_USE,
                NameMatcher(frozenset({"Edit", "Write"})),
                HookCommand("c", timeout=5),
                FILE,
            ),
        )
    )


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (build_command("x"), HookCommand("x", None, "sh")),
        (build_command("x", args=[]), HookCommand("x", ())),
        (build_command("x", args=["$(rm)", ""]), HookCommand("x", ("$(rm)", ""))),
        (build_command("x", shell="bash"), HookCommand("x", shell="bash")),
        (build_command("x", timeout=0.5), HookCommand("x", timeout=0.5)),
        (build_command("x", onFailure="block"), HookCommand("x", block_on_failure=True)),
        (build_command("x", onFailure="continue"), HookCommand("x")),
        (build_command("x", **{"async": True}), HookCommand("x", background=True)),
        (build_command("x", statusMessage="checking"), HookCommand("x", status="checking")),
        (build_command("x", **{"if": "Bash(ls)"}), HookCommand("x", condition="Bash(ls)")),
        (
            {"type": "http", "url": "https://h/p", "headers": {"A": "$T"}, "allowedEnvVars": ["T"]},
            HttpPost("https://h/p", (("A", "$T"),), ("T",)),
        ),
        (
            {"type": "mcp_tool", "server": "s", "tool": "t", "input": {"b": 1, "a": "x"}},
            UpstreamCall("s", "t", '{"a": "x", "b": 1}'),
        ),
    ],
)
def test_a_valid_hook_is_parsed_without_problems(entry: Json, expected: Action) -> None:
    config, problems = parse(build_pre_hooks(entry))

    assert problems == ()
    assert [hook.action for hook in config.hooks] == [expected]


AT = "settings.json: hooks.PreToolUse[0].hooks[0]"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "settings.json: hooks: expected an object of events, got a list; it is skipped"),
        (None, "settings.json: hooks: expected an object of events, got nothing; it is skipped"),
        (
            {"PreToolUse": {"hooks": []}},
            'settings.json: hooks.PreToolUse: expected a list of {"matcher", "hooks"} objects, '
            "got an object; it is skipped",
        ),
        (
            {"PreToolUse": ["x"]},
            'settings.json: hooks.PreToolUse[0]: expected an object with "hooks", got "x"; '
            "it is skipped",
        ),
        (
            {"PreToolUse": [{"matcher": "Bash"}]},
            "settings.json: hooks.PreToolUse[0].hooks: expected a list of hooks, got nothing; "
            "it is skipped",
        ),
        (build_pre_hooks("x"), f'{AT}: expected an object with "type", got "x"; it is skipped'),
        (
            build_pre_hooks({"command": "x"}),
            f'{AT}.type: expected "command", "http" or "mcp_tool", got nothing; it is skipped',
        ),
        (
            build_pre_hooks({"type": "comand"}),
            f'{AT}.type: expected "command", "http" or "mcp_tool", got "comand"; it is skipped',
        ),
        (
            build_pre_hooks({"type": "http", "url": "file:///etc/passwd"}),
            f'{AT}.url: expected an http or https URL, got "file:///etc/passwd"; '
            "the hook does not run",
        ),
        (
            build_pre_hooks({"type": "http", "url": "http://h", "headers": {"a": 1}}),
            f"{AT}.headers: expected an object of texts, got 1; the hook does not run",
        ),
        (
            build_pre_hooks({"type": "mcp_tool", "server": "s"}),
            f"{AT}.tool: expected the name of a tool, got nothing; the hook does not run",
        ),
        (
            build_pre_hooks({"type": "prompt"}),
            f'{AT}.type: "prompt" needs a model; the hook does not run',
        ),
        (
            build_pre_hooks({"type": "agent"}),
            f'{AT}.type: "agent" needs a model; the hook does not run',
        ),
        (
            build_pre_hooks({"type": "command"}),
            f"{AT}.command: expected a command, not empty and without NUL, got nothing; "
            "the hook does not run",
        ),
        (
            build_pre_hooks(build_command("")),
            f'{AT}.command: expected a command, not empty and without NUL, got ""; the hook does not run',
        ),
        (
            build_pre_hooks(build_command("a\0b")),
            f"{AT}.command: expected a command, not empty and without NUL, "
            r'got "a\u0000b"; the hook does not run',
        ),
        (
            build_pre_hooks(build_command("x", args="y")),
            f'{AT}.args: expected a list of texts, got "y"; the hook does not run',
        ),
        (
            build_pre_hooks(build_command("x", args=["y", 1])),
            f"{AT}.args: expected a list of texts, got 1; the hook does not run",
        ),
        (
            build_pre_hooks(build_command("x", shell="powershell")),
            f'{AT}.shell: expected "bash", got "powershell"; the hook does not run',
        ),
        (
            {"Stop": [{"hooks": [build_command("x")]}]},
            "settings.json: hooks.Stop: never happens in a server of tools; its hooks do not run",
        ),
        (
            {"PreTooluse": [{"hooks": [build_command("x")]}]},
            "settings.json: hooks.PreTooluse: is not a hook event; its hooks do not run",
        ),
    ],
)
def test_an_invalid_entry_is_skipped_and_reported(raw: Json, problem: str) -> None:
    assert parse(raw) == (HookConfig(), (problem,))


@pytest.mark.parametrize(
    ("options", "action", "problem"),
    [
        (
            {"timeout": -1},
            HookCommand("x"),
            f"{AT}.timeout: expected a number of seconds over 0, got -1; the default is used",
        ),
        (
            {"timeout": "5"},
            HookCommand("x"),
            f'{AT}.timeout: expected a number of seconds over 0, got "5"; the default is used',
        ),
        (
            {"timeout": True},
            HookCommand("x"),
            f"{AT}.timeout: expected a number of seconds over 0, got true; the default is used",
        ),
        (
            {"onFailure": "deny"},
            HookCommand("x"),
            f'{AT}.onFailure: expected "continue" or "block", got "deny"; the default is used',
        ),
        (
            {"async": "yes"},
            HookCommand("x"),
            f'{AT}.async: expected true or false, got "yes"; the default is used',
        ),
        (
            {"statusMessage": 5},
            HookCommand("x"),
            f"{AT}.statusMessage: expected a text, got 5; the default is used",
        ),
        (
            {"once": True},
            HookCommand("x"),
            f"{AT}.once: has no effect in a server of tools",
        ),
        (
            {"tiemout": 5},
            HookCommand("x"),
            f"{AT}.tiemout: is not an option of a hook of type command and has no effect",
        ),
    ],
)
def test_a_hook_with_an_invalid_or_unknown_option_is_kept_and_the_option_reported(
    options: dict[str, Json], action: HookCommand, problem: str
) -> None:
    config, problems = parse(build_pre_hooks(build_command("x", **options)))

    assert [hook.action for hook in config.hooks] == [action]
    assert problems == (problem,)


def test_an_invalid_entry_does_not_affect_the_other_entries() -> None:
    config, problems = parse(
        build_pre_hooks(build_command("a"), 5, build_command("b", args=5), build_command("c"))
    )

    assert [hook.action.label for hook in config.hooks] == ["a", "c"]
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("matcher", "got"), [("Bash(", '"Bash("'), (5, "5"), (None, "nothing"), (" ", '" "')]
)
def test_a_hook_with_an_invalid_matcher_runs_for_every_tool(matcher: Json, got: str) -> None:
    config, problems = parse({"PreToolUse": [{"matcher": matcher, "hooks": [build_command("x")]}]})

    hook = Hook(HookEventName.PRE_TOOL_USE, InvalidMatcher(), HookCommand("x"), FILE)
    assert config.find_matching(HookEventName.PRE_TOOL_USE, "Read") == (
        MatchedHook(hook, sure=False),
    )
    assert problems == (
        "settings.json: hooks.PreToolUse[0].matcher: expected tool names or a regular "
        f"expression, got {got}; its hooks run for every tool, and what they allow does not count",
    )


def test_a_hook_option_on_the_matcher_group_is_reported() -> None:
    _, problems = parse({"PreToolUse": [{"onFailure": "block", "hooks": []}]})

    assert problems == (
        "settings.json: hooks.PreToolUse[0].onFailure: has no effect here; options of a hook "
        "stand beside its type",
    )


def test_only_hooks_of_the_event_and_the_tool_match() -> None:
    raw: Json = {
        "PreToolUse": [{"matcher": "Bash", "hooks": [build_command("a")]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": [build_command("b")]}],
    }

    config, _ = parse(raw)

    assert _list_matching_commands(config, HookEventName.PRE_TOOL_USE, "Bash") == ["a"]
    assert _list_matching_commands(config, HookEventName.POST_TOOL_USE, "Bash") == ["b"]
    assert _list_matching_commands(config, HookEventName.POST_TOOL_USE_FAILURE, "Bash") == []
    assert _list_matching_commands(config, HookEventName.PRE_TOOL_USE, "Read") == []


def test_a_hook_configured_in_two_files_runs_once_at_its_first_position() -> None:
    first = HookSource(build_pre_hooks(build_command("a"), build_command("b")), FILE)
    second = HookSource(build_pre_hooks(build_command("c"), build_command("a"), matcher="*"), OTHER)

    config, _ = parse_hooks([first, second])

    assert _list_matching_commands(config, HookEventName.PRE_TOOL_USE, "Bash") == ["a", "b", "c"]
    assert config.find_matching(HookEventName.PRE_TOOL_USE, "Bash")[0].hook.file == FILE


def test_hooks_that_differ_in_an_option_all_run() -> None:
    config, _ = parse(
        build_pre_hooks(
            build_command("a"), build_command("a", args=[]), build_command("a", timeout=5)
        )
    )

    assert _list_matching_commands(config, HookEventName.PRE_TOOL_USE, "Bash") == ["a", "a", "a"]


def test_an_invalid_condition_is_reported_and_its_hook_is_kept() -> None:
    raw = build_pre_hooks(
        build_command("a", **{"if": "Bash("}), build_command("b", **{"if": "Bash(ls)"})
    )

    config, problems = parse_hooks(
        [HookSource(raw, FILE)], lambda rule: "no end" if rule == "Bash(" else None
    )

    assert [hook.action.condition for hook in config.hooks] == ["Bash(", "Bash(ls)"]
    assert tuple(map(str, problems)) == (
        f'{AT}.if: "Bash(": no end; the hook runs whenever its matcher fits, and what it allows '
        "does not count",
    )


def test_a_hook_with_a_condition_is_skipped_on_an_event_that_is_not_about_one_call() -> None:
    config, problems = parse(
        {"Elicitation": [{"hooks": [build_command("x", **{"if": "Bash(ls)"})]}]},
    )

    assert config == HookConfig()
    assert problems == (
        "settings.json: hooks.Elicitation[0].hooks[0].if: Elicitation is not about one call of a "
        "tool; the hook does not run",
    )


def test_a_match_is_sure_if_one_valid_matcher_of_the_hook_fits() -> None:
    raw: Json = {
        "PreToolUse": [
            {"matcher": "(", "hooks": [build_command("a")]},
            {"matcher": "Bash", "hooks": [build_command("a")]},
        ]
    }

    config, _ = parse(raw)

    assert [
        matched.sure for matched in config.find_matching(HookEventName.PRE_TOOL_USE, "Bash")
    ] == [True]
    assert [
        matched.sure for matched in config.find_matching(HookEventName.PRE_TOOL_USE, "Read")
    ] == [False]


def test_the_origin_of_a_hook_is_its_file_and_its_shortened_and_escaped_command() -> None:
    config, _ = parse(build_pre_hooks(build_command("check\x1b[31m", args=["y" * 100])))

    label = r"check\x1b[31m " + "y" * 69 + "…"
    assert config.hooks[0].origin == Origin("settings.json", rule=label)


def test_control_characters_are_escaped_in_problems() -> None:
    _, problems = parse({"Pre\x1b]0;": []})

    assert problems == (
        r"settings.json: hooks.Pre\x1b]0;: is not a hook event; its hooks do not run",
    )


def _list_matching_commands(config: HookConfig, event: HookEventName, tool: str) -> list[str]:
    return [matched.hook.action.label for matched in config.find_matching(event, tool)]


def test_a_matcher_on_an_event_that_has_none_is_ignored_and_reported() -> None:
    config, problems = parse(
        {"PostToolBatch": [{"matcher": "Bash", "hooks": [build_command("x")]}]}
    )

    assert config == HookConfig(
        (Hook(HookEventName.POST_TOOL_BATCH, AllMatcher(), HookCommand("x"), FILE),)
    )
    assert problems == (
        "settings.json: hooks.PostToolBatch[0].matcher: PostToolBatch has no matcher; "
        "it is ignored",
    )
