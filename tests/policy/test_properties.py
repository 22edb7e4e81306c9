"""Properties of every set of rules and every call."""

from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_dispatch.model.decision import Decision, Effect, Origin, Tier, Vote
from mcp_dispatch.policy.commands.pattern import Wildcard
from mcp_dispatch.policy.policy import Policy
from mcp_dispatch.policy.subject import Subject
from mcp_dispatch.settings.models import PermissionMode
from mcp_dispatch.settings.settings import LayerKind, RuleSettings, RuleText, Settings
from mcp_dispatch.shell.analyze import parse_shell_text
from mcp_dispatch.shell.ast import EXPANSION
from mcp_dispatch.shell.fallback_tokens import tokenize_unparsed
from mcp_dispatch.shell.plain_parser import parse_plain
from tests.support.policies import ALLOW, ASK, DENY, bash, on_file, rule, upstream

# The first example includes imports, and test machines are shared.
unhurried = settings(deadline=None)
WORKSPACE = Path("/workspace")
HOME = Path("/home/someone")

PROGRAMS = ["ls", "rm", "git log", "git push", "cat a", "cat .env", "npm run x", "rm -rf y"]
PIECES = [
    *PROGRAMS,
    *(" ", ";", "&&", "|", "&", "\n", "'", '"', "\\", "$x", "$(", ")", "`", "(", "{", "}", ">"),
    *(">out", "<", "2>&1", "sudo ", "env ", "A=1 ", "bash -c ", "eval ", "if ", "; then ", "; fi"),
    *("#", "*", "timeout 5 ", "xargs ", "<<E\n", "\\\n", "\r", "é", "-x", "find . -exec "),
]
RULES = [
    *("Bash", "Bash(ls)", "Bash(ls:*)", "Bash(rm:*)", "Bash(git log:*)", "Bash(git push:*)"),
    *("Bash(cat *)", "Bash(*)", "Bash(* x)", "Bash(npm*)", "Bash(", "Bash()", "Read", "Read(.env)"),
    *("Read(src/**)", "Read(//**)", "Edit", "Edit(src/**)", "Edit(./**)", "Edit(//**)", "Write"),
    *("Write(src/**)", "mcp__a", "mcp__a__b", "mcp__a__*", "mcp__*", "*", "a__b", "WebFetch"),
    *("Read(!a)", "Read(a[b)", "Nonsense", "Bash(sudo:*)", "Bash(echo a && *)"),
]
PATHS = ["a", ".env", "src/a", "src/.env", ".git/config", "../x", "/elsewhere/a", ".mcp.json"]

commands = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)
subjects = st.one_of(
    commands.map(lambda command: bash(command, WORKSPACE)),
    st.builds(
        on_file,
        st.sampled_from(["Read", "Write", "Edit"]),
        st.sampled_from(PATHS).map(lambda path: WORKSPACE / path),
        st.just(WORKSPACE),
    ),
    st.builds(upstream, st.sampled_from(["a", "ab"]), st.sampled_from(["b", "c"])),
)
rule_texts = st.builds(rule, st.sampled_from([ALLOW, ASK, DENY]), st.sampled_from(RULES))
rule_lists = st.lists(rule_texts, max_size=6)
modes = st.sampled_from(list(PermissionMode))
hook_votes = st.lists(
    st.builds(
        Vote,
        st.sampled_from(list(Tier)),
        st.sampled_from([ALLOW, ASK, DENY]),
        st.just("a hook"),
        st.just(Origin("hook")),
    ),
    max_size=3,
)


def evaluate(
    rules: list[RuleText],
    subject: Subject,
    mode: PermissionMode = PermissionMode.DEFAULT,
    votes: list[Vote] | None = None,
) -> Decision:
    made = Policy(
        Settings(rules=RuleSettings(texts=tuple(rules))), [WORKSPACE], [], mode, home=HOME
    )
    return made.evaluate(subject, hook_votes=votes or [])


@unhurried
@given(rule_lists, rule_texts, subjects, modes, hook_votes)
def test_adding_a_deny_or_an_ask_never_loosens_a_decision(
    rules: list[RuleText],
    added: RuleText,
    subject: Subject,
    mode: PermissionMode,
    votes: list[Vote],
):
    for effect in (ASK, DENY):
        stricter = [*rules, replace(added, effect=effect)]

        assert (
            evaluate(stricter, subject, mode, votes).effect
            >= evaluate(rules, subject, mode, votes).effect
        )


@unhurried
@given(rule_lists, rule_texts, subjects, modes)
def test_adding_an_allow_never_tightens_a_decision(
    rules: list[RuleText], added: RuleText, subject: Subject, mode: PermissionMode
):
    looser = [*rules, replace(added, effect=ALLOW)]

    assert evaluate(looser, subject, mode).effect <= evaluate(rules, subject, mode).effect


@unhurried
@given(rule_lists, st.randoms(use_true_random=False), subjects, modes, hook_votes)
def test_the_order_of_rules_and_their_repetition_never_matter(
    rules: list[RuleText],
    random: Random,
    subject: Subject,
    mode: PermissionMode,
    votes: list[Vote],
):
    shuffled = [*rules, *rules]
    random.shuffle(shuffled)

    assert (
        evaluate(shuffled, subject, mode, votes).effect
        is evaluate(rules, subject, mode, votes).effect
    )


@unhurried
@given(
    st.lists(st.tuples(rule_texts, st.sampled_from(list(LayerKind))), max_size=6),
    st.randoms(use_true_random=False),
    subjects,
    modes,
)
def test_the_layer_and_the_order_of_rules_never_matter(
    placed: list[tuple[RuleText, LayerKind]], random: Random, subject: Subject, mode: PermissionMode
):
    """The meaning of a leading `/` depends on the layer; none of these rules begins with one."""
    rules = [
        replace(one, layer=layer, file=Path(f"/{layer.value}/settings.json"))
        for one, layer in placed
    ]
    layers = [one.layer for one in rules]
    random.shuffle(layers)
    moved = [replace(one, layer=layer) for one, layer in zip(rules, layers, strict=True)]
    random.shuffle(moved)

    assert evaluate(moved, subject, mode).effect is evaluate(rules, subject, mode).effect


@unhurried
@given(rule_lists, subjects, modes, hook_votes)
def test_no_hook_weakens_a_deny_or_an_ask_of_the_rules(
    rules: list[RuleText], subject: Subject, mode: PermissionMode, votes: list[Vote]
):
    alone = evaluate(rules, subject, mode)
    with_hooks = evaluate(rules, subject, mode, votes)

    if alone.by.tier in (Tier.DENY, Tier.HARD_ASK):
        assert with_hooks.effect >= alone.effect


@unhurried
@given(
    st.sampled_from(["rm x", "/bin/rm -r y", "A=1 rm", "sudo rm x", "'rm' x", "bash -c 'rm x'"]),
    st.lists(st.sampled_from(["ls", "cat a", "echo 'b c' \"d\"", "A=1", "true"]), max_size=3),
    st.lists(st.sampled_from(["ls", "cat a", "echo $x", "true > out"]), max_size=3),
    st.sampled_from(["; ", " && ", " || ", " | ", " & ", "\n", " |& "]),
    st.sampled_from(["{}", "({})", "{{ {}; }}", "if {}; then a; fi", "$({})", "`{}`", "! {}"]),
    rule_lists,
    modes,
)
def test_a_text_that_contains_a_denied_command_anywhere_is_denied(
    denied: str,
    before: list[str],
    after: list[str],
    operator: str,
    around: str,
    rules: list[RuleText],
    mode: PermissionMode,
):
    text = around.format(operator.join([*before, denied, *after]))

    decision = evaluate([*rules, rule(DENY, "Bash(rm:*)")], bash(text, WORKSPACE), mode)

    assert decision.effect is DENY


@unhurried
@given(rule_lists, commands)
def test_a_command_that_rules_allow_is_fully_understood(rules: list[RuleText], command: str):
    specific = [one for one in rules if one.text not in ("Bash", "Bash(*)")]

    decision = evaluate(specific, bash(command, WORKSPACE))

    if decision.effect is ALLOW:
        assert not hasattr(parse_shell_text(command), "reason")


@unhurried
@given(st.text(max_size=60))
def test_no_text_makes_a_parser_fail(text: str):
    parse_plain(text)
    tokenize_unparsed(text)
    evaluate([rule(DENY, "Bash(rm:*)"), rule(ALLOW, "Bash(ls:*)")], bash(text, WORKSPACE))
    evaluate([rule(DENY, text), rule(ALLOW, text), rule(ASK, text)], bash("ls", WORKSPACE))
    evaluate([rule(DENY, f"Read({text})")], on_file("Read", text, WORKSPACE))


def matches_slowly(pattern: str, text: str) -> bool:
    """Match by the plain definition of `*`, for comparison."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches_slowly(pattern[1:], text) or bool(text and matches_slowly(pattern, text[1:]))
    return bool(text) and pattern[0] == text[0] and matches_slowly(pattern[1:], text[1:])


@unhurried
@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_the_linear_matcher_agrees_with_the_definition(pattern: str, text: str):
    assert Wildcard.parse(pattern).matches(text) is matches_slowly(pattern, text)


@unhurried
@given(st.text("ab*", max_size=5), st.text("ab", max_size=3), st.text("ab", max_size=3))
def test_an_expansion_may_match_whenever_some_text_in_its_place_does(
    pattern: str, before: str, after: str
):
    fillings = ["", *(a + b + c for a in "ab" for b in ("", "a", "b") for c in ("", "a", "b"))]
    wildcard = Wildcard.parse(pattern)

    if any(wildcard.matches(before + filling + after) for filling in fillings):
        assert wildcard.may_match(before + EXPANSION + after)
    if EXPANSION not in pattern and "*" not in pattern:
        assert not wildcard.matches(before + EXPANSION + after)


def test_effects_are_ordered_from_loose_to_strict():
    assert Effect.ALLOW < Effect.ASK < Effect.DENY
