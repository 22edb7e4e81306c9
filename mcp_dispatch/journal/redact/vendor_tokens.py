"""Secrets that say what they are: tokens of known vendors, by their prefix and alphabet."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class SecretSpan(NamedTuple):
    """A secret in a text: from `start` up to `end`, and what kind it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """`pattern` is tried only on texts that contain one of `hints`, in any case: it keeps
    a long harmless text cheap."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


# Not inside a word or a base64 blob; but right after an escaped newline or a percent-escape.
_TOKEN_START = r"(?:(?<![A-Za-z0-9+/_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[:=\"'>]/))"
_TOKEN_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def _define(kind: str, hints: str, pattern: str) -> TokenPattern:
    return TokenPattern(kind, tuple(hints.lower().split()), re.compile(pattern, re.ASCII))


# Lengths are minima, a little below what the vendors issue today: formats grow.
TOKEN_PATTERNS: tuple[TokenPattern, ...] = (
    # Clouds and hosting
    _define(
        "aws-access-key",
        "AKIA ASIA ABIA ACCA A3T",
        r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}" + _TOKEN_END,
    ),
    _define("aws-bedrock-key", "ABSK", _TOKEN_START + r"ABSK[A-Za-z0-9+/]{90,}={0,2}"),
    _define("aws-bedrock-key", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{20,}={0,2}"),
    _define("google-api-key", "AIza", r"AIza[\w-]{35}"),
    _define("google-oauth", "ya29. GOCSPX-", r"(?:ya29\.|GOCSPX-)[\w-]{20,}"),
    _define("google-oauth", "1//0", _TOKEN_START + r"1//0[\w-]{30,}"),
    _define("azure-secret", "Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{30,40}"),
    _define("alibaba-key", "LTAI", _TOKEN_START + r"LTAI[A-Za-z0-9]{12,30}" + _TOKEN_END),
    _define("digitalocean-token", "_v1_", r"(?i:do[opr]_v1_[a-f0-9]{40,})"),
    _define("heroku-key", "HRKU-", r"HRKU-[\w-]{30,}"),
    _define(
        "flyio-token",
        "fo1_ fm1 fm2_",
        _TOKEN_START + r"(?:fo1_[\w-]{30,}|fm[12][ar]?_[\w+/-]{60,}=*)",
    ),
    _define("cloudflare-key", "v1.0-", _TOKEN_START + r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"),
    _define("openshift-token", "sha256~", r"sha256~[\w-]{40,}"),
    _define("scalingo-token", "tk-us-", _TOKEN_START + r"tk-us-[\w-]{40,}"),
    _define("planetscale-token", "pscale_", r"(?i:pscale_(?:tkn|oauth|pw)_)[\w=.-]{30,}"),
    _define(
        "supabase-key",
        "sbp_ sb_secret_",
        _TOKEN_START + r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,})",
    ),
    _define("clickhouse-key", "4b1d", _TOKEN_START + r"4b1d[A-Za-z0-9]{38}" + _TOKEN_END),
    _define("databricks-token", "dapi", _TOKEN_START + r"dapi[a-f0-9]{32}(?:-\d)?"),
    _define("yandex-key", "AQVN", _TOKEN_START + r"AQVN[\w-]{30,}"),
    _define("yandex-token", "t1.", _TOKEN_START + r"t1\.[\w-]{1,200}={0,2}\.[\w-]{86}={0,2}"),
    # Code hosting, packages, build
    _define("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _define("github-token", "github_pat_", r"github_pat_\w{30,}"),
    _define(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glffct- glimt- glagent- gloas- glsoat- glwt-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|ffct|imt|agent|oas|soat|wt)-[\w-]{20,}(?:\.[\w-]{2,})*",
    ),
    _define("gitlab-token", "GR1348941", r"GR1348941[\w-]{20,}"),
    _define("gitlab-session", "_gitlab_session=", r"(?<=_gitlab_session=)\w{20,}"),
    _define("npm-token", "npm_", _TOKEN_START + r"(?i:npm_)[A-Za-z0-9]{36,}"),
    _define("pypi-token", "pypi-", r"pypi-[\w-]{50,}"),
    _define("rubygems-token", "rubygems_", r"rubygems_[a-f0-9]{40,}"),
    _define("clojars-token", "clojars_", r"(?i:clojars_)[A-Za-z0-9]{50,}"),
    _define("nuget-key", "oy2", _TOKEN_START + r"oy2[a-z0-9]{43}" + _TOKEN_END),
    _define("docker-token", "dckr_", r"dckr_[po]at_[\w-]{20,}"),
    _define("artifactory-key", "AKCp", _TOKEN_START + r"AKCp[A-Za-z0-9]{60,}"),
    _define("artifactory-key", "cmVmd", _TOKEN_START + r"cmVmd[A-Za-z0-9]{55,}"),
    _define(
        "atlassian-token", "ATATT3 ATCTT3 ATBB", _TOKEN_START + r"AT(?:ATT3|CTT3|BB)[\w=-]{24,}"
    ),
    _define("terraform-token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),
    _define("vault-token", "hvs. hvb. hvr.", _TOKEN_START + r"hv[sbr]\.[\w-]{24,}"),
    _define(
        "vault-token",
        "s.",
        _TOKEN_START + r"(?<!\.)s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}" + _TOKEN_END,
    ),
    _define("pulumi-token", "pul-", _TOKEN_START + r"pul-[a-f0-9]{40}"),
    _define("doppler-token", "dp.", _TOKEN_START + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}"),
    _define("infracost-token", "ico-", _TOKEN_START + r"ico-[A-Za-z0-9]{32}" + _TOKEN_END),
    _define(
        "harness-token",
        "pat. sat.",
        _TOKEN_START + r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    ),
    _define("octopus-key", "API-", _TOKEN_START + r"API-[A-Z0-9]{26}" + _TOKEN_END),
    _define("prefect-key", "pnu_ pnb_", _TOKEN_START + r"pn[ub]_[A-Za-z0-9]{36}"),
    _define(
        "sourcegraph-token",
        "sgp_",
        _TOKEN_START + r"(?i:sgp_)(?:[A-Za-z0-9]{5,16}_)?[a-fA-F0-9]{40}",
    ),
    _define("sonar-token", "squ_ sqp_ sqa_", _TOKEN_START + r"sq[upa]_[a-f0-9]{40}"),
    _define("launchdarkly-key", "sdk- api- mob-", _TOKEN_START + r"(?:sdk|api|mob)-" + _UUID),
    _define("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[\w-]{16,}"),
    _define("defined-networking-key", "dnkey-", r"(?i:dnkey-)[\w=-]{20,}"),
    # Models
    _define("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    _define("openai-key", "sk-", _TOKEN_START + r"sk-(?=[A-Za-z_-]{0,200}\d)[\w-]{20,}"),
    _define("huggingface-token", "hf_ api_org_", _TOKEN_START + r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    _define("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    _define("groq-key", "gsk_", _TOKEN_START + r"gsk_[A-Za-z0-9]{40,}"),
    _define("xai-key", "xai-", _TOKEN_START + r"xai-[A-Za-z0-9]{60,}"),
    _define("replicate-token", "r8_", _TOKEN_START + r"r8_[A-Za-z0-9]{36,}"),
    # Chat and mail
    _define(
        "slack-token",
        "xox xapp-",
        r"(?i:xox[abceoprs](?:.xox[bp])?|xapp)-[A-Za-z0-9-]{7,}",
    ),
    _define(
        "slack-webhook",
        "hooks.slack.com",
        r"(?<=hooks.slack.com/)(?:services|workflows|triggers)/[\w+/]{20,}",
    ),
    _define(
        "teams-webhook",
        "webhook.office.com",
        r"(?<=webhook.office.com/)webhookb2/[\w@-]{36,}/IncomingWebhook/[\w/-]{32,}",
    ),
    _define(
        "discord-webhook",
        "/api/webhooks/",
        r"(?<=/api/webhooks/)\d{15,22}/[\w-]{40,}",
    ),
    _define("discord-token", ".", _TOKEN_START + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    _define("telegram-token", ":A", _TOKEN_START + r"\d{8,11}:AA[\w-]{33}" + _TOKEN_END),
    _define("sendgrid-key", "SG.", _TOKEN_START + r"SG\.[\w=.-]{60,}"),
    _define("sendinblue-key", "xkeysib-", r"xkeysib-[a-f0-9]{60,}(?:-[A-Za-z0-9]+)?"),
    _define("mailgun-key", "key-", _TOKEN_START + r"(?:pub)?key-[a-f0-9]{32}" + _TOKEN_END),
    _define("mailchimp-key", "-us", _TOKEN_START + r"[a-f0-9]{32}-us\d{1,2}" + _TOKEN_END),
    _define("twilio-key", "SK", _TOKEN_START + r"SK[0-9a-fA-F]{32}" + _TOKEN_END),
    # Payment and shops
    _define("stripe-key", "sk_ rk_", _TOKEN_START + r"[sr]k_(?:live|test|prod)_\w{10,}"),
    _define("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),
    _define("square-token", "sq0", _TOKEN_START + r"sq0[a-z]{3}-[\w-]{20,}"),
    _define("square-token", "EAAA", _TOKEN_START + r"EAAA[\w-]{22,}"),
    _define("shopify-token", "shp", r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}"),
    _define("shippo-token", "shippo_", r"shippo_(?:live|test)_[a-fA-F0-9]{40}"),
    _define("flutterwave-key", "FLW", r"FLW(?:SECK|PUBK)(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"),
    _define("easypost-key", "EZAK EZTK", _TOKEN_START + r"EZ[AT]K[A-Za-z0-9]{50,}"),
    _define("duffel-token", "duffel_", r"duffel_(?:test|live)_[\w=-]{40,}"),
    _define(
        "plaid-token",
        "access-",
        _TOKEN_START + r"access-(?:sandbox|development|production)-" + _UUID,
    ),
    _define(
        "lob-key", "live_ test_", _TOKEN_START + r"(?:live|test)_(?:pub_[a-f0-9]{31}|[a-f0-9]{35})"
    ),
    # Everything else
    _define("1password-key", "A3-", _TOKEN_START + r"A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}"),
    _define("1password-token", "ops_", r"ops_eyJ[A-Za-z0-9+/]{60,}={0,3}"),
    _define("adobe-secret", "p8e-", _TOKEN_START + r"p8e-[A-Za-z0-9_-]{32,}"),
    _define("age-key", "age-secret-key-", r"(?i:AGE-SECRET-KEY-)[A-Za-z0-9]{50,}"),
    _define("airtable-token", "pat", _TOKEN_START + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{60,}"),
    _define(
        "authress-key",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}"
        r"\.acc[_-][A-Za-z0-9-]{10,32}\.[\w+/=-]{30,}",
    ),
    _define("contentful-token", "CFPAT-", r"CFPAT-[\w-]{30,}"),
    _define("dropbox-token", "sl.", _TOKEN_START + r"sl\.(?:u\.)?[\w=-]{100,}"),
    _define("dynatrace-token", "dt0", r"dt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{50,}"),
    _define("facebook-token", "EAA", _TOKEN_START + r"EAA[A-Z][A-Za-z0-9]{90,}"),
    _define(
        "facebook-token", "| %", _TOKEN_START + r"\d{15,16}(?:\||%(?:7C)?)[\w-]{27,40}" + _TOKEN_END
    ),
    _define("figma-token", "figd_", r"figd_[\w-]{30,}"),
    _define("frameio-token", "fio-u-", r"fio-u-[\w=-]{50,}"),
    _define("grafana-key", "eyJrIjoi", _TOKEN_START + r"(?i:eyJrIjoi)[A-Za-z0-9]{60,}={0,3}"),
    _define("grafana-token", "glc_ glsa_", _TOKEN_START + r"(?i:glc|glsa)_[\w+/]{32,}={0,3}"),
    _define("intra42-secret", "s-s4t2", r"s-s4t2(?:ud|af)-[A-Fa-f0-9]{60,}"),
    _define("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _define("mapbox-token", "sk.ey", _TOKEN_START + r"sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    _define("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    _define("newrelic-key", "NRAK- NRII- NRJS-", r"NR(?:AK|II|JS)-[A-Za-z0-9-]{19,}"),
    _define("notion-token", "ntn_ secret_", _TOKEN_START + r"(?:ntn|secret)_[A-Za-z0-9]{43,}"),
    _define("postman-key", "PMAK-", r"PMAK-[A-Za-z0-9]{24}-[A-Za-z0-9]{34}"),
    _define("readme-key", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _define("sentry-token", "sntrys_ sntryu_", r"sntry[su]_[\w+/=]{40,}"),
    _define("settlemint-token", "sm_", _TOKEN_START + r"sm_[aps]at_[A-Za-z0-9]{16}"),
    _define("typeform-token", "tfp_", r"tfp_[\w.=-]{40,}"),
    _define(
        "jwt", "ey", _TOKEN_START + r"ey[\w-]{15,2000}+\.ey[\w/\\-]{15,}(?:\.[\w/\\-]*={0,2})?"
    ),
    _define("jwt", "ZXlK", _TOKEN_START + r"ZXlK[\w+/-]{40,}={0,2}"),
)

_KEY_START = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_END = re.compile(r"-----END[ A-Z0-9_-]{0,100}KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_BODY = re.compile(
    r"(?:\s|\\[nrt])*+(?:[A-Z][\w-]{1,20}: [^\n]{0,200}\n\s*+)*+"
    r"[A-Za-z0-9+/=]{32,}+(?:[A-Za-z0-9+/=\s]|\\[nrt])*+"
)
_MIN_KEY_BODY_CHARS = 40
# Private keys apart, every known secret is one unbroken run; ordinary sentences have none so long.
_LONG_RUN = re.compile(r"\S{12}")


def find_known_secrets(text: str) -> Iterator[SecretSpan]:
    if _LONG_RUN.search(text) is None:
        return
    folded = text.lower()
    if "private key" in folded:
        yield from _find_private_keys(text)
    for known in TOKEN_PATTERNS:
        if any(hint in folded for hint in known.hints):
            for found in known.pattern.finditer(text):
                yield SecretSpan(found.start(), found.end(), known.kind)


def _find_private_keys(text: str) -> Iterator[SecretSpan]:
    """Whole blocks; of a block that was cut off, everything that can still belong to it."""
    ends = [end.end() for end in _KEY_END.finditer(text)]
    done = 0
    for begin in _KEY_START.finditer(text):
        if begin.start() < done:
            continue
        after = bisect_left(ends, begin.end() + _MIN_KEY_BODY_CHARS)
        body = _KEY_BODY.match(text, begin.end())
        if after < len(ends):
            done = ends[after]
        elif body is not None:
            done = body.end()
        else:
            continue
        yield SecretSpan(begin.start(), done, "private-key")
