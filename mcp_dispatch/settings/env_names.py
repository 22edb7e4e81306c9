"""Which environment variables a workspace may set, once it is trusted.

A variable can decide which program runs, which library it loads or which host it connects to. A
variable that a workspace may not set can be set in the user's own file for that workspace.
"""

import os
import re

OWN_PREFIX = "MCP_DISPATCH_"

_NAME_PATTERN = re.compile(r"[A-Z][A-Z0-9_]*")

# These affect only display, logging or reproducibility.
_HARMLESS_NAMES = frozenset(
    {
        *("NODE_ENV", "RUST_LOG", "RUST_BACKTRACE", "PYTHONUNBUFFERED", "PYTHONHASHSEED"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONUTF8"),
    }
)
# Programs that start others, load code or hold credentials have many variables and add new ones, so
# the whole prefix is refused.
_REFUSED_PREFIXES = (
    *("LD_", "DYLD_", "GLIBC_", "MALLOC_", "GCONV", "LOCPATH", "NLSPATH", "HOSTALIASES"),
    *("BASH", "ZSH", "ZDOT", "KSH", "FISH", "HIST", "INPUTRC", "READLINE", "TERM"),
    *(
        "GIT",
        "SSH",
        "GPG",
        "GNUPG",
        "SUDO",
        "DBUS",
        "XDG_",
        "LESS",
        "MANPAGER",
        "MANROFF",
        "MANOPT",
        "GROFF",
        "GREP_",
    ),
    *("PYTHON", "PYTEST_PLUGINS", "PIP", "UV_", "POETRY_", "CONDA", "VIRTUAL_ENV", "PYENV"),
    *("NODE", "NPM", "YARN", "PNPM", "BUN_", "DENO_", "COREPACK", "ELECTRON", "VITE_"),
    *("CARGO", "RUST", "GO", "CGO", "JAVA", "JDK", "JVM", "KOTLIN", "SCALA", "SBT", "ANT_"),
    *("MAVEN", "MVN", "GRADLE", "RUBY", "GEM_", "BUNDLE", "RAKE", "PERL", "PHP", "LUA"),
    *("DOTNET", "COR_", "CORECLR", "MONO", "NUGET", "MSBUILD", "ERL", "ELIXIR", "MIX_", "HEX_"),
    *("MAKE", "CMAKE", "NINJA", "CCACHE", "AUTOM4TE", "GCC", "CLANG", "LLVM", "QT_", "GTK"),
    *("AWS", "AZURE", "ARM_", "GOOGLE", "GCP", "GCLOUD", "CLOUDSDK", "KUBE", "HELM", "TF_"),
    *("DOCKER", "BUILDKIT", "PODMAN", "CONTAINER", "VAULT", "ANSIBLE", "GITHUB", "GITLAB"),
    *("ANTHROPIC", "CLAUDE", "OPENAI", "GEMINI", "MCP", "OTEL", "SENTRY", "CURL", "WGET"),
    *("SSL", "TLS", "OPENSSL", "REQUESTS", "HTTP", "HTTPS", "FTP", "ALL_PROXY", "NO_PROXY"),
    *("PG", "MYSQL", "REDISCLI", "SQLITE", "R_", "JULIA", "OCAML", "OPAM", "HASKELL", "GHC"),
)
_REFUSED_WORDS = frozenset(
    {
        *("PATH", "PATHS", "PRELOAD", "LIB", "LIBS", "LIBRARY", "LOADER", "INCLUDE", "CLASSPATH"),
        *("PROXY", "URL", "URI", "HOST", "ENDPOINT", "ENDPOINTS", "SERVER", "BASE", "REGISTRY"),
        *("INDEX", "MIRROR", "SOCK", "SOCKET", "REMOTE", "ORIGIN", "DOMAIN", "ADDR", "ADDRESS"),
        *("OPT", "OPTS", "OPTIONS", "FLAGS", "ARGS", "ARGUMENTS", "CONFIG", "CONF", "CFG", "RC"),
        *("HOME", "DIR", "DIRS", "ROOT", "PREFIX", "FILE", "SHELL", "EDITOR", "VISUAL", "PAGER"),
        *("BROWSER", "TERMINAL", "COMMAND", "CMD", "EXEC", "EXECUTABLE", "BIN", "PROGRAM"),
        *("WRAPPER", "LAUNCHER", "RUNNER", "HOOK", "HOOKS", "PLUGIN", "PLUGINS", "MODULE"),
        *("MODULES", "EXTENSION", "EXTENSIONS", "STARTUP", "INIT", "ASKPASS", "HELPER", "AGENT"),
        *("CERT", "CERTS", "CA", "BUNDLE", "VERIFY", "INSECURE", "TRUST"),
        *("CREDENTIALS", "PROFILE"),
    }
)
_REFUSED_NAMES = frozenset(
    {
        *("ENV", "IFS", "USER", "LOGNAME", "USERNAME", "TMP", "TEMP", "TMPDIR", "PWD", "OLDPWD"),
        *("PS0", "PS1", "PS2", "PS3", "PS4"),
        *("CC", "CXX", "CPP", "AR", "AS", "LD", "NM", "RANLIB", "STRIP", "FC", "PROMPT", "FPATH"),
        *("CDPATH", "MAIL", "MAILCHECK", "OPTIND", "OPTERR", "RANDOM", "SECONDS", "EPOCHSECONDS"),
        *("GLOBIGNORE", "EXECIGNORE", "FIGNORE", "POSIXLY_CORRECT", "DISPLAY", "WAYLAND_DISPLAY"),
        *("RES_OPTIONS", "LOCALDOMAIN", "TZ_DIR", "PROMPT_DIRTRIM", "COMSPEC", "PATHEXT"),
    }
)


def is_refused_to_workspaces(name: str) -> bool:
    """Return whether even a trusted workspace may not set `name`."""
    if name in _HARMLESS_NAMES:
        return False
    if (
        not _NAME_PATTERN.fullmatch(name)
        or name in _REFUSED_NAMES
        or name.startswith(_REFUSED_PREFIXES)
    ):
        return True
    words = name.split("_")
    return any(word in _REFUSED_WORDS or word.endswith(("PATH", "PROXY", "OPTS")) for word in words)


def find_variable_problem(name: str, value: str) -> str | None:
    """Return why no file can set this variable, or None if one can."""
    if not name or "=" in name or "\0" in name:
        return "expected the name of an environment variable"
    if name.upper().startswith(OWN_PREFIX):
        return "variables of mcp-dispatch itself reach no child"
    try:
        os.fsencode(name + value)
    except UnicodeEncodeError:
        return "half a surrogate pair cannot stand in the environment"
    return "a value cannot contain a NUL character" if "\0" in value else None
