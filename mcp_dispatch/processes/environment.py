"""Select the environment variables that child processes inherit."""

from collections.abc import Mapping

OWN_PREFIX = "MCP_DISPATCH_"

_BASICS = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
_CA_BUNDLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "PIP_CERT"),
)
# Without these hardly any program starts on Windows.
_WINDOWS = (
    *("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERNAME"),
    *("USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES"),
)
_BASELINE = frozenset(
    (*_BASICS, *_PROXIES, *(name.lower() for name in _PROXIES), *_CA_BUNDLES, *_WINDOWS)
)
_BASELINE_PREFIXES = ("LC_", "XDG_")


def select_baseline(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that every program needs, without secrets: for upstreams and hooks."""
    return {
        name: value
        for name, value in environ.items()
        if name in _BASELINE or name.startswith(_BASELINE_PREFIXES)
    }


def remove_own_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return all variables but our own, which would let a model approve its calls: for the shell."""
    return {name: value for name, value in environ.items() if not name.startswith(OWN_PREFIX)}
