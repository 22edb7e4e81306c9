"""Redaction removes secrets and leaves everything else unchanged."""

import json
import random
import re
import time
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mcp_dispatch.journal.redact.redact import redact, redact_text
from mcp_dispatch.model.json import Json
from tests.support.depth import choose_count

GITHUB = "ghp_" + "aB3" * 12
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + ("MIIEowIBAAKCAQEA" * 4 + "\n") * 3
    + "-----END RSA PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9xx.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"

SECRETS = [
    # Tokens that say what they are, anywhere
    (f"use {GITHUB}, please", "use [redacted:github-token], please"),
    (r"env:\nAKIAIOSFODNN7EXAMPLE\n", r"env:\n[redacted:aws-access-key]\n"),
    ("sk-ant-api03-" + "x1" * 20, "[redacted:anthropic-key]"),
    ("sk-proj-" + "x1" * 20, "[redacted:openai-key]"),
    ("AIza" + "x" * 35, "[redacted:google-api-key]"),
    ("glpat-" + "x" * 20, "[redacted:gitlab-token]"),
    ("xoxb-123456789012-abcdef", "[redacted:slack-token]"),
    ("sk_live_" + "x" * 24, "[redacted:stripe-key]"),
    ("npm_" + "x" * 36, "[redacted:npm-token]"),
    ("pypi-" + "x" * 60, "[redacted:pypi-token]"),
    ("AGE-SECRET-KEY-1" + "Q" * 58, "[redacted:age-key]"),
    (f"id: {JWT}.", "id: [redacted:jwt]."),
    (f"before\n{PEM}\nafter", "before\n[redacted:private-key]\nafter"),
    (PEM[:120], "[redacted:private-key]"),
    (PEM.replace("\n", "\\n") + '", "a": 1', '[redacted:private-key]", "a": 1'),
    # Names that promise a secret
    ("PASSWORD=hunter && run", "PASSWORD=[redacted:password] && run"),
    ("DB_PASS=a.b.c", "DB_PASS=[redacted:password]"),
    ("PGPASSWORD=abc psql -h db", "PGPASSWORD=[redacted:password] psql -h db"),
    ("export GITHUB_TOKEN=abcdefgh", "export GITHUB_TOKEN=[redacted:token]"),
    ("password: hunter\nuser: anna", "password: [redacted:password]\nuser: anna"),
    ("password: |\n  hunter2\nuser: anna", "password: |\n  [redacted:password]\nuser: anna"),
    ('{"password": "two words", "a": 1}', '{"password": "[redacted:password]", "a": 1}'),
    (r"{\"apiKey\": \"abc\"}", r"{\"apiKey\": \"[redacted:api-key]\"}"),
    ("connect(password='hunter2')", "connect(password='[redacted:password]')"),
    ('os.environ["API_TOKEN"] = "abc"', 'os.environ["API_TOKEN"] = "[redacted:token]"'),
    ('token := "abc"', 'token := "[redacted:token]"'),
    (
        "run --password hunter2 TOKEN=abc",
        "run --password [redacted:password] TOKEN=[redacted:token]",
    ),
    ("run --api-key=abc123 -v", "run --api-key=[redacted:api-key] -v"),
    ("GET /x?access_token=abcd1234&y=1", "GET /x?access_token=[redacted:token]&y=1"),
    ("API key: abcdef123456abcdef", "API key: [redacted:api-key]"),
    ("<password>hunter2</password>", "<password>[redacted:password]</password>"),
    ('<add key="Password" value="a b" />', '<add key="Password" value="[redacted:password]" />'),
    ("- name: DB_PASSWORD\n  value: abc", "- name: DB_PASSWORD\n  value: [redacted:password]"),
    ("AccountKey=abcd1234==;Endpoint=x", "AccountKey=[redacted:api-key];Endpoint=x"),
    (
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = [redacted:api-key]",
    ),
    ("kind: Secret\ndata:\n  db: aHVudGVyMg==", "kind: Secret\ndata:\n  db: [redacted:secret]"),
    # Headers, URLs, commands
    ("X-Api-Key: abcdefgh12", "X-Api-Key: [redacted:api-key]"),
    ("Authorization: Bearer abc123def", "Authorization: Bearer [redacted:authorization]"),
    ("-H 'Authorization: token abc'", "-H 'Authorization: token [redacted:authorization]'"),
    ("sent Bearer abcdef123456 to it", "sent Bearer [redacted:authorization] to it"),
    ("Basic dXNlcjpwYXNz", "Basic [redacted:authorization]"),
    ("Cookie: sid=abc; x=1\nAccept: *", "Cookie: [redacted:cookie]\nAccept: *"),
    ("https://anna:hunter2@host/x", "https://anna:[redacted:password]@host/x"),
    ("postgres://u:p@ss@db:5432/x", "postgres://u:[redacted:password]@db:5432/x"),
    ("redis://:hunter2@localhost", "redis://:[redacted:password]@localhost"),
    (f"https://{GITHUB}@github.com/a", "https://[redacted:github-token]@github.com/a"),
    ("curl -u anna:hunter2 https://x", "curl -u anna:[redacted:password] https://x"),
    ("curl --user 'anna:a b' https://x", "curl --user 'anna:[redacted:password]' https://x"),
    ("sshpass -p hunter2 ssh x", "sshpass -p [redacted:password] ssh x"),
    ("mysql -u root -phunter2 db", "mysql -u root -p[redacted:password] db"),
    ("mysql --password=a.b db", "mysql --password=[redacted:password] db"),
]


@pytest.mark.parametrize(("text", "redacted"), SECRETS)
def test_a_secret_is_replaced_and_the_text_around_it_stays(text: str, redacted: str) -> None:
    assert redact_text(text) == redacted


HARMLESS = [
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "key: 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "/home/anna/projects/token-service/src/password_reset.py",
    "The token: it expires tomorrow, and the secret of good tea is patience.",
    "Forgot your password? Use the key under the mat. The key takeaway: simplicity.",
    "Basic authentication is not Bearer authentication.",
    "Authorization: required",
    "cookie: chocolate",
    "pass: 12 fail: 3",
    "authentication: succeeded at 2024-01-15T10:30:00Z",
    'max_tokens=4096, "total_tokens": 812, nextPageToken=CAUQAA1234567890abcdef',
    "def login(user: str, password: str, token: Optional[str] = None) -> Token:",
    "self.token = token",
    "connect(user=user, password=password, token=self._token)",
    'return authenticate(password=os.environ["DB_PASSWORD"])',
    "def ask(prompt='Password: ', stream=None):",
    'print("token: " + repr(value))',
    'if token == "@" or token == expected_token:',
    'credentials = f"{name}:{secret}"',
    'headers["Authorization"] = f"Bearer {self.token}"',
    "const token = useToken(); const { secret } = props;",
    "tokens = tokenizer.encode(text); secrets = load_secrets(path)",
    "import secrets; secrets.token_hex(16)",
    "password: string; token_type: bearer, secret_name: prod/db",
    '"properties": {"password": {"type": "string"}}',
    '<input type="password" name="password" id="pw">',
    "export TOKEN=$GITHUB_TOKEN OTHER_TOKEN=${X} password=$pw",
    'curl -H "Authorization: Bearer $TOKEN" https://api.example.com/v1',
    "password: ${DB_PASSWORD}\napi_key: {{ secrets.API_KEY }}\nAPI_KEY=<your-api-key>",
    "password: ********",
    'author = "Anna Example", authority: https://login.example.com/common',
    'cache_key = "user:42:profile"; primary_key=True; keyboard: us; "key": "Enter"',
    "git@github.com:org/repo.git ssh://git@example.com:2222/repo.git",
    "http://localhost:8080/path@2x.png https://example.com/@user/post @types/node@18.0.0",
    "git log --author=anna --format=%H",
    "SELECT password FROM users WHERE token IS NULL",
    'if "-----BEGIN PRIVATE KEY-----" in text: raise ValueError("a private key")',
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n",
    "sk-spinner-container-of-the-page task-management-system-v2 glass-card-container-wide",
    "x = s.someMethodNameOfTwentyFour",
    "version: 1.2.3-beta.4+build.5678",
]


@pytest.mark.parametrize("text", [*HARMLESS, "\n".join(HARMLESS)])
def test_text_that_only_resembles_a_secret_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize("seed", range(5))
def test_an_image_in_base64_stays(seed: int) -> None:
    picture = b64encode(random.Random(seed).randbytes(70_000)).decode("ascii")

    assert redact_text(f"data:image/png;base64,{picture}") == f"data:image/png;base64,{picture}"


JSON_VALUES: list[tuple[Json, Json]] = [
    ({"password": "x1"}, {"password": "[redacted:password]"}),
    ({"userPassword": 1234}, {"userPassword": "[redacted:password]"}),
    ({"token": 12, "token_type": "bearer"}, {"token": 12, "token_type": "bearer"}),
    ({"Authorization": "Bearer x"}, {"Authorization": "[redacted:authorization]"}),
    ({"Authorization": "Bearer ${TOKEN}"}, {"Authorization": "Bearer ${TOKEN}"}),
    (
        {"credentials": {"user": "bob", "parts": ["a", 1, None]}},
        {
            "credentials": {
                "user": "[redacted:credential]",
                "parts": ["[redacted:credential]", 1, None],
            }
        },
    ),
    ({"tokens": ["the", "cat"]}, {"tokens": ["the", "cat"]}),
    ({"_meta": {"progressToken": "a1b2"}}, {"_meta": {"progressToken": "a1b2"}}),
    ({"key": "Enter", "keys": ["a"]}, {"key": "Enter", "keys": ["a"]}),
    (
        [{"name": "DB_PASSWORD", "value": "abc"}, {"name": "HOME", "value": "/root"}],
        [
            {"name": "DB_PASSWORD", "value": "[redacted:password]"},
            {"name": "HOME", "value": "/root"},
        ],
    ),
    ([["Cookie", "a"], ["Accept", "b"]], [["Cookie", "[redacted:cookie]"], ["Accept", "b"]]),
    (["--password", "abc", "-v"], ["--password", "[redacted:password]", "-v"]),
    (["password", "token"], ["password", "token"]),
    (
        {"kind": "Secret", "data": {"a": "b"}},
        {"kind": "Secret", "data": {"a": "[redacted:secret]"}},
    ),
    ({GITHUB: True}, {"[redacted:github-token]": True}),
    ({"text": f"a {GITHUB}"}, {"text": "a [redacted:github-token]"}),
    ({"n": float("inf"), "big": 10**400}, {"n": "inf", "big": 10**400}),
]


@pytest.mark.parametrize(("value", "redacted"), JSON_VALUES)
def test_json_is_redacted_by_its_keys_and_its_strings(value: Json, redacted: Json) -> None:
    assert redact(value) == redacted


FRAGMENTS = st.sampled_from(
    [
        *("password", "token", "API_KEY", "key", "Authorization", "Cookie", "--secret", "name"),
        *("value", "kind: Secret", "=", ":", " = ", ": ", ":=", "=>", "==", ">", "<", '"', "'"),
        *("`", '\\"', "\\", "\n", "\n  ", "\\n", ",", " ", ";", "&", "(", ")", "[", "]", "{", "}"),
        *("Bearer ", "Basic ", "dXNlcjpwYXNz", "hunter2", "hunter", "$x", "${X}", "***", GITHUB),
        *("AKIA" + "Q" * 16, JWT, "s." + "a1" * 12, "https://", "user", "@", "host", "/", "."),
        *("curl", " -u ", "mysql", " -p", "[redacted:token]", "[redacted:", "redacted:token]"),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "QUJD" * 20, "true", "é"),
    ]
)
TEXTS = st.one_of(st.lists(FRAGMENTS, max_size=14).map("".join), st.text(st.characters()))
# Longer keys are cut with a notice, and cutting the notice again is another text.
KEYS = TEXTS.filter(lambda text: len(text) <= 200)
JSONS: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=choose_count(quick=80, deep=4000), deadline=None)
@given(TEXTS)
def test_redacting_again_changes_nothing(text: str) -> None:
    once = redact_text(text)

    assert redact_text(once) == once


@settings(
    max_examples=choose_count(quick=40, deep=2000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(JSONS)
def test_redacted_json_is_json_and_redacting_it_again_changes_nothing(value: Json) -> None:
    once = redact(value)

    assert redact(once) == once
    assert json.loads(json.dumps(once, allow_nan=False)) == once


def test_a_long_text_is_cut_and_its_length_is_added() -> None:
    assert redact_text("ab " * 10, max_chars=5) == "ab ab… [30 characters in all]"


@pytest.mark.parametrize("before", range(0, 60, 7))
def test_no_part_of_a_secret_across_the_cut_is_shown(before: int) -> None:
    text = "." * before + " " + GITHUB + " " + "." * 50

    shown = redact_text(text, max_chars=30)

    assert "ghp_" not in shown
    assert "aB3" not in shown


def test_values_that_are_too_deep_or_too_many_are_left_out() -> None:
    deep: Json = "bottom"
    for _ in range(100_000):
        deep = [deep]

    assert "nested deeper than 64 levels" in json.dumps(redact(deep))
    assert redact(list(range(1_002))) == [*range(1_000), "[2 more not recorded]"]
    assert redact(["aaaa", "bbbb", "cc"], max_total_chars=6) == [
        "aaaa",
        "bb… [4 characters in all]",
        "[not recorded: 2 characters]",
    ]


REPEATED = [
    *(
        "a",
        "token=",
        "key=",
        "key=key='",
        'token":"',
        "authorization: ",
        "cookie: a=",
        "ey-",
        "sk-",
    ),
    *("-----BEGIN PRIVATE KEY-----", "a://", "http://a:", "name=a value=", "mysql -", "   ", "\\"),
    *(
        "kind: Secret\n   ",
        "[redacted:a]",
        "Bearer a",
        "token=$a",
        "M-.",
        "curl -u '",
        "x" * 99 + "=",
    ),
]


@pytest.mark.parametrize("piece", REPEATED)
def test_redaction_takes_linear_time(piece: str) -> None:
    text = (piece * 100_000)[:100_000]

    began = time.process_time()
    redact_text(text)

    # A second for what takes 0.3 s at worst; a pattern that reads twice would take minutes.
    assert time.process_time() - began < 5


# The rules of gitleaks, as a test set: each rule's own pattern makes samples of its secret.

ASSIGNED = "(?:=|>|:{1,3}="
VALUE = re.compile(r"\[\\x60'\"\\s=\]\{0,5\}(\(.*)\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$\)\Z")


def in_python(pattern: str) -> str:
    """RE2's spelling as Python's: flags in the middle become groups, `\\z` becomes `\\Z`."""
    pattern = pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
    head, rest = ("(?i)", pattern[4:]) if pattern.startswith("(?i)") else ("", pattern)
    while "(?i)" in rest:
        at = rest.index("(?i)")
        end = end_of_group(rest, at + 4)
        rest = f"{rest[:at]}(?i:{rest[at + 4 : end]}){rest[end:]}"
    return head + rest


def end_of_group(pattern: str, position: int) -> int:
    depth, in_class = 0, False
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 1
        elif in_class or character == "[":
            in_class = character != "]"
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth < 0:
                break
        position += 1
    return position


def samples(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []

    @settings(
        max_examples=12,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(st.from_regex(pattern, fullmatch=True))
    def collect(sample: str) -> None:
        found.append(sample)

    collect()
    return found


def gitleaks_rules(data_dir: Path) -> dict[str, str]:
    rules = json.loads((data_dir / "strings" / "gitleaks_rules.json").read_text(encoding="utf-8"))
    return {rule["id"]: in_python(rule["regex"]) for rule in rules if rule["regex"]}


def test_nearly_all_secrets_with_a_known_format_are_redacted(data_dir: Path) -> None:
    """The rest: patterns looser than what they mean (`hooks.slack.com` with any character for
    its dots, a bare git hash for Sourcegraph), YAML and PHP over lines of odd white space."""
    missed: list[str] = []
    tried = 0
    for rule, regex in gitleaks_rules(data_dir).items():
        if ASSIGNED in regex and not rule.startswith("atlassian"):
            continue
        pattern = re.compile(regex, re.ASCII)
        for sample in samples(pattern):
            match = pattern.fullmatch(sample)
            assert match is not None
            secret = next((group for group in match.groups() if group), sample)
            tried += 1
            if secret in redact_text(sample):
                missed.append(rule)

    assert tried > 1_000
    assert len(missed) / tried < 0.06, sorted(set(missed))


@pytest.mark.parametrize(
    "written", ["{}_API_KEY={}", '"{}_secret": "{}"', "{}.password={}", "--{}-token {}"]
)
def test_secrets_without_a_known_format_are_redacted_by_their_name(
    data_dir: Path, written: str
) -> None:
    """A vendor's name alone (`adafruit = …`) is not a credential name."""
    missed: list[str] = []
    tried = 0
    for rule, regex in gitleaks_rules(data_dir).items():
        value = VALUE.search(regex)
        if value is None:
            continue
        for secret in samples(re.compile(f"(?i){value[1]}", re.ASCII)):
            # `--token -v` is an option without a value, not a value with a dash.
            secret = secret.strip('"').lstrip("-")
            line = written.format(rule.split("-")[0], secret)
            tried += 1
            if secret in redact_text(line):
                missed.append(line)

    assert tried > 500
    assert len(missed) / tried < 0.01, missed
