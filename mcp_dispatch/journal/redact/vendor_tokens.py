"""Secrets that say what they are: tokens of known vendors, by their prefix and alphabet."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """A secret in a text: from `start` up to `end`, and what kind it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """`pattern` is tried only on texts that contain one of `hints`, in any case: it keeps
    a long harmless text cheap."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


# Not inside a word or a base64 blob; but right after an escaped newline or a percent-escape.
_EDGE = r"(?:(?<![A-Za-z0-9+/_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=[:=\"'>]/))"
_END = r"(?![A-Za-z0-9])"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def _row(kind: str, hints: str, pattern: str) -> KnownSecret:
    return KnownSecret(kind, tuple(hints.lower().split()), re.compile(pattern, re.ASCII))


# Lengths are minima, a little below what the vendors issue today: formats grow.
KNOWN_SECRETS: tuple[KnownSecret, ...] = (
    # Clouds and hosting
    _row(
        "aws-access-key",
        "AKIA ASIA ABIA ACCA A3T",
        r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16}" + _END,
    ),
    _row("aws-bedrock-key", "ABSK", _EDGE + r"ABSK[A-Za-z0-9+/]{90,}={0,2}"),
    _row("aws-bedrock-key", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{20,}={0,2}"),
    _row("google-api-key", "AIza", r"AIza[\w-]{35}"),
    _row("google-oauth", "ya29. GOCSPX-", r"(?:ya29\.|GOCSPX-)[\w-]{20,}"),
    _row("google-oauth", "1//0", _EDGE + r"1//0[\w-]{30,}"),
    _row("azure-secret", "Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.-]{30,40}"),
    _row("alibaba-key", "LTAI", _EDGE + r"LTAI[A-Za-z0-9]{12,30}" + _END),
    _row("digitalocean-token", "_v1_", r"(?i:do[opr]_v1_[a-f0-9]{40,})"),
    _row("heroku-key", "HRKU-", r"HRKU-[\w-]{30,}"),
    _row("flyio-token", "fo1_ fm1 fm2_", _EDGE + r"(?:fo1_[\w-]{30,}|fm[12][ar]?_[\w+/-]{60,}=*)"),
    _row("cloudflare-key", "v1.0-", _EDGE + r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}"),
    _row("openshift-token", "sha256~", r"sha256~[\w-]{40,}"),
    _row("scalingo-token", "tk-us-", _EDGE + r"tk-us-[\w-]{40,}"),
    _row("planetscale-token", "pscale_", r"(?i:pscale_(?:tkn|oauth|pw)_)[\w=.-]{30,}"),
    _row("supabase-key", "sbp_ sb_secret_", _EDGE + r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,})"),
    _row("clickhouse-key", "4b1d", _EDGE + r"4b1d[A-Za-z0-9]{38}" + _END),
    _row("databricks-token", "dapi", _EDGE + r"dapi[a-f0-9]{32}(?:-\d)?"),
    _row("yandex-key", "AQVN", _EDGE + r"AQVN[\w-]{30,}"),
    _row("yandex-token", "t1.", _EDGE + r"t1\.[\w-]{1,200}={0,2}\.[\w-]{86}={0,2}"),
    # Code hosting, packages, build
    _row("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _row("github-token", "github_pat_", r"github_pat_\w{30,}"),
    _row(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glffct- glimt- glagent- gloas- glsoat- glwt-",
        r"gl(?:pat|dt|rt|cbt|ptt|ft|ffct|imt|agent|oas|soat|wt)-[\w-]{20,}(?:\.[\w-]{2,})*",
    ),
    _row("gitlab-token", "GR1348941", r"GR1348941[\w-]{20,}"),
    _row("gitlab-session", "_gitlab_session=", r"(?<=_gitlab_session=)\w{20,}"),
    _row("npm-token", "npm_", _EDGE + r"(?i:npm_)[A-Za-z0-9]{36,}"),
    _row("pypi-token", "pypi-", r"pypi-[\w-]{50,}"),
    _row("rubygems-token", "rubygems_", r"rubygems_[a-f0-9]{40,}"),
    _row("clojars-token", "clojars_", r"(?i:clojars_)[A-Za-z0-9]{50,}"),
    _row("nuget-key", "oy2", _EDGE + r"oy2[a-z0-9]{43}" + _END),
    _row("docker-token", "dckr_", r"dckr_[po]at_[\w-]{20,}"),
    _row("artifactory-key", "AKCp", _EDGE + r"AKCp[A-Za-z0-9]{60,}"),
    _row("artifactory-key", "cmVmd", _EDGE + r"cmVmd[A-Za-z0-9]{55,}"),
    _row("atlassian-token", "ATATT3 ATCTT3 ATBB", _EDGE + r"AT(?:ATT3|CTT3|BB)[\w=-]{24,}"),
    _row("terraform-token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}"),
    _row("vault-token", "hvs. hvb. hvr.", _EDGE + r"hv[sbr]\.[\w-]{24,}"),
    _row("vault-token", "s.", _EDGE + r"(?<!\.)s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}" + _END),
    _row("pulumi-token", "pul-", _EDGE + r"pul-[a-f0-9]{40}"),
    _row("doppler-token", "dp.", _EDGE + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}"),
    _row("infracost-token", "ico-", _EDGE + r"ico-[A-Za-z0-9]{32}" + _END),
    _row(
        "harness-token",
        "pat. sat.",
        _EDGE + r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    ),
    _row("octopus-key", "API-", _EDGE + r"API-[A-Z0-9]{26}" + _END),
    _row("prefect-key", "pnu_ pnb_", _EDGE + r"pn[ub]_[A-Za-z0-9]{36}"),
    _row("sourcegraph-token", "sgp_", _EDGE + r"(?i:sgp_)(?:[A-Za-z0-9]{5,16}_)?[a-fA-F0-9]{40}"),
    _row("sonar-token", "squ_ sqp_ sqa_", _EDGE + r"sq[upa]_[a-f0-9]{40}"),
    _row("launchdarkly-key", "sdk- api- mob-", _EDGE + r"(?:sdk|api|mob)-" + _UUID),
    _row("tailscale-key", "tskey-", r"tskey-[a-z]{2,12}-[\w-]{16,}"),
    _row("defined-networking-key", "dnkey-", r"(?i:dnkey-)[\w=-]{20,}"),
    # Models
    _row("anthropic-key", "sk-ant-", r"sk-ant-[\w-]{20,}"),
    _row("openai-key", "sk-", _EDGE + r"sk-(?=[A-Za-z_-]{0,200}\d)[\w-]{20,}"),
    _row("huggingface-token", "hf_ api_org_", _EDGE + r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    _row("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    _row("groq-key", "gsk_", _EDGE + r"gsk_[A-Za-z0-9]{40,}"),
    _row("xai-key", "xai-", _EDGE + r"xai-[A-Za-z0-9]{60,}"),
    _row("replicate-token", "r8_", _EDGE + r"r8_[A-Za-z0-9]{36,}"),
    # Chat and mail
    _row(
        "slack-token",
        "xox xapp-",
        r"(?i:xox[abceoprs](?:.xox[bp])?|xapp)-[A-Za-z0-9-]{7,}",
    ),
    _row(
        "slack-webhook",
        "hooks.slack.com",
        r"(?<=hooks.slack.com/)(?:services|workflows|triggers)/[\w+/]{20,}",
    ),
    _row(
        "teams-webhook",
        "webhook.office.com",
        r"(?<=webhook.office.com/)webhookb2/[\w@-]{36,}/IncomingWebhook/[\w/-]{32,}",
    ),
    _row(
        "discord-webhook",
        "/api/webhooks/",
        r"(?<=/api/webhooks/)\d{15,22}/[\w-]{40,}",
    ),
    _row("discord-token", ".", _EDGE + r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    _row("telegram-token", ":A", _EDGE + r"\d{8,11}:AA[\w-]{33}" + _END),
    _row("sendgrid-key", "SG.", _EDGE + r"SG\.[\w=.-]{60,}"),
    _row("sendinblue-key", "xkeysib-", r"xkeysib-[a-f0-9]{60,}(?:-[A-Za-z0-9]+)?"),
    _row("mailgun-key", "key-", _EDGE + r"(?:pub)?key-[a-f0-9]{32}" + _END),
    _row("mailchimp-key", "-us", _EDGE + r"[a-f0-9]{32}-us\d{1,2}" + _END),
    _row("twilio-key", "SK", _EDGE + r"SK[0-9a-fA-F]{32}" + _END),
    # Payment and shops
    _row("stripe-key", "sk_ rk_", _EDGE + r"[sr]k_(?:live|test|prod)_\w{10,}"),
    _row("webhook-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{20,}"),
    _row("square-token", "sq0", _EDGE + r"sq0[a-z]{3}-[\w-]{20,}"),
    _row("square-token", "EAAA", _EDGE + r"EAAA[\w-]{22,}"),
    _row("shopify-token", "shp", r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}"),
    _row("shippo-token", "shippo_", r"shippo_(?:live|test)_[a-fA-F0-9]{40}"),
    _row("flutterwave-key", "FLW", r"FLW(?:SECK|PUBK)(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"),
    _row("easypost-key", "EZAK EZTK", _EDGE + r"EZ[AT]K[A-Za-z0-9]{50,}"),
    _row("duffel-token", "duffel_", r"duffel_(?:test|live)_[\w=-]{40,}"),
    _row("plaid-token", "access-", _EDGE + r"access-(?:sandbox|development|production)-" + _UUID),
    _row("lob-key", "live_ test_", _EDGE + r"(?:live|test)_(?:pub_[a-f0-9]{31}|[a-f0-9]{35})"),
    # Everything else
    _row("1password-key", "A3-", _EDGE + r"A3-[A-Z0-9]{6}(?:-[A-Z0-9]{5,11}){4,5}"),
    _row("1password-token", "ops_", r"ops_eyJ[A-Za-z0-9+/]{60,}={0,3}"),
    _row("adobe-secret", "p8e-", _EDGE + r"p8e-[A-Za-z0-9_-]{32,}"),
    _row("age-key", "age-secret-key-", r"(?i:AGE-SECRET-KEY-)[A-Za-z0-9]{50,}"),
    _row("airtable-token", "pat", _EDGE + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{60,}"),
    _row(
        "authress-key",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}"
        r"\.acc[_-][A-Za-z0-9-]{10,32}\.[\w+/=-]{30,}",
    ),
    _row("contentful-token", "CFPAT-", r"CFPAT-[\w-]{30,}"),
    _row("dropbox-token", "sl.", _EDGE + r"sl\.(?:u\.)?[\w=-]{100,}"),
    _row("dynatrace-token", "dt0", r"dt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{50,}"),
    _row("facebook-token", "EAA", _EDGE + r"EAA[A-Z][A-Za-z0-9]{90,}"),
    _row("facebook-token", "| %", _EDGE + r"\d{15,16}(?:\||%(?:7C)?)[\w-]{27,40}" + _END),
    _row("figma-token", "figd_", r"figd_[\w-]{30,}"),
    _row("frameio-token", "fio-u-", r"fio-u-[\w=-]{50,}"),
    _row("grafana-key", "eyJrIjoi", _EDGE + r"(?i:eyJrIjoi)[A-Za-z0-9]{60,}={0,3}"),
    _row("grafana-token", "glc_ glsa_", _EDGE + r"(?i:glc|glsa)_[\w+/]{32,}={0,3}"),
    _row("intra42-secret", "s-s4t2", r"s-s4t2(?:ud|af)-[A-Fa-f0-9]{60,}"),
    _row("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    _row("mapbox-token", "sk.ey", _EDGE + r"sk\.eyJ[\w-]{40,}\.[\w-]{20,}"),
    _row("maxmind-key", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk"),
    _row("newrelic-key", "NRAK- NRII- NRJS-", r"NR(?:AK|II|JS)-[A-Za-z0-9-]{19,}"),
    _row("notion-token", "ntn_ secret_", _EDGE + r"(?:ntn|secret)_[A-Za-z0-9]{43,}"),
    _row("postman-key", "PMAK-", r"PMAK-[A-Za-z0-9]{24}-[A-Za-z0-9]{34}"),
    _row("readme-key", "rdme_", r"rdme_[a-z0-9]{60,}"),
    _row("sentry-token", "sntrys_ sntryu_", r"sntry[su]_[\w+/=]{40,}"),
    _row("settlemint-token", "sm_", _EDGE + r"sm_[aps]at_[A-Za-z0-9]{16}"),
    _row("typeform-token", "tfp_", r"tfp_[\w.=-]{40,}"),
    _row("jwt", "ey", _EDGE + r"ey[\w-]{15,2000}+\.ey[\w/\\-]{15,}(?:\.[\w/\\-]*={0,2})?"),
    _row("jwt", "ZXlK", _EDGE + r"ZXlK[\w+/-]{40,}={0,2}"),
)

_KEY_BEGINS = re.compile(r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_ENDS = re.compile(r"-----END[ A-Z0-9_-]{0,100}KEY(?: BLOCK)?-----", re.IGNORECASE)
_KEY_BODY = re.compile(
    r"(?:\s|\\[nrt])*+(?:[A-Z][\w-]{1,20}: [^\n]{0,200}\n\s*+)*+"
    r"[A-Za-z0-9+/=]{32,}+(?:[A-Za-z0-9+/=\s]|\\[nrt])*+"
)
_SHORTEST_KEY_BODY = 40
# Private keys apart, every known secret is one unbroken run; ordinary sentences have none so long.
_LONG_RUN = re.compile(r"\S{12}")


def known_secrets(text: str) -> Iterator[Span]:
    if _LONG_RUN.search(text) is None:
        return
    folded = text.lower()
    if "private key" in folded:
        yield from _private_keys(text)
    for known in KNOWN_SECRETS:
        if any(hint in folded for hint in known.hints):
            for found in known.pattern.finditer(text):
                yield Span(found.start(), found.end(), known.kind)


def _private_keys(text: str) -> Iterator[Span]:
    """Whole blocks; of a block that was cut off, everything that can still belong to it."""
    ends = [end.end() for end in _KEY_ENDS.finditer(text)]
    done = 0
    for begin in _KEY_BEGINS.finditer(text):
        if begin.start() < done:
            continue
        after = bisect_left(ends, begin.end() + _SHORTEST_KEY_BODY)
        body = _KEY_BODY.match(text, begin.end())
        if after < len(ends):
            done = ends[after]
        elif body is not None:
            done = body.end()
        else:
            continue
        yield Span(begin.start(), done, "private-key")
