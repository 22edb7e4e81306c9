"""The programs that can be used to look without touching, each with the options that keep it so.

A name that is not here, an option that is not here: not read-only. Left out on purpose are
interpreters, pagers, whatever opens connections to a place it is told, and every option that
writes, runs a program, reads its arguments from a file or takes one from another version's list.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell import safe_scripts
from mcp_dispatch.shell.arguments import Operands, Options, Program, Reader
from mcp_dispatch.shell.safe_git import GIT

NONE, TEXTS, PATHS, PATTERN = Operands.NONE, Operands.TEXTS, Operands.PATHS, Operands.PATTERN

BUILTINS = frozenset(
    {"cd", "command", "echo", "false", "printf", "pwd", "test", "[", "true", "type", ":"}
)
"""What bash itself does: no file of that name is run."""

_NOTHING = Options.of("")
_SUMS = Program(Options.of("bt --binary --text --tag"), globs=True)
_GREP = Program(
    Options.of(
        "EFGPivwxcLlnHhoqsbaIrRUuyTZ A: B: C: m: e: d:"
        " --extended-regexp --fixed-strings --perl-regexp --basic-regexp --ignore-case"
        " --no-ignore-case --invert-match --word-regexp --line-regexp --count"
        " --files-without-match --files-with-matches --line-number --with-filename --no-filename"
        " --only-matching --quiet --silent --no-messages --byte-offset --text --recursive"
        " --dereference-recursive --color --colour --null --initial-tab --line-buffered"
        " --after-context: --before-context: --context: --max-count: --regexp: --include:"
        " --exclude: --exclude-dir: --binary-files: --label:"
    ),
    PATTERN,
    least=0,
    numeric=True,
    globs=True,
    sweeping=frozenset({"-r", "-R", "-d", "--recursive", "--dereference-recursive"}),
    following=frozenset({"-R", "--dereference-recursive"}),
)
_RG = Program(
    Options.of(
        "ivwxclnNHIoqsSFPUaup0. A: B: C: e: g: t: T: m: M: r: d: j:"
        " --ignore-case --invert-match --word-regexp --line-regexp --count --count-matches"
        " --files-with-matches --files-without-match --line-number --no-line-number"
        " --with-filename --no-filename --only-matching --quiet --case-sensitive --smart-case"
        " --fixed-strings --pcre2 --multiline --multiline-dotall --text --unrestricted --null"
        " --hidden --no-hidden --no-ignore --no-ignore-vcs --no-ignore-parent --heading"
        " --no-heading --vimgrep --json --stats --trim --column --no-column --files --type-list"
        " --passthru --pretty --no-messages --crlf --no-config --version"
        " --after-context: --before-context: --context: --regexp: --glob: --iglob: --type:"
        " --type-not: --max-count: --max-columns: --max-depth: --max-filesize: --replace: --color:"
        " --sort: --sortr: --threads: --engine: --encoding:"
    ),
    PATTERN,
    numeric=False,
    sweeps=True,
    variables=("RIPGREP_CONFIG_PATH",),
)
_FD = Program(
    Options.of(
        "HIuisgFap01q e: t: E: d: S: c: j:"
        " --hidden --no-ignore --no-ignore-vcs --unrestricted --ignore-case --case-sensitive"
        " --glob --fixed-strings --absolute-path --full-path --print0 --quiet --prune"
        " --extension: --type: --exclude: --max-depth: --min-depth: --exact-depth: --size: --color:"
        " --changed-within: --changed-before: --max-results:"
    ),
    PATTERN,
    here=True,
)
_DIGITS = re.compile(r"[0-9.]+[smhd]?")
_DATE = re.compile(r"\+.*", re.DOTALL)
_KUBECTL = "A n: l: o: L: --all-namespaces --namespace: --selector: --output: --show-labels"
_KUBECTL_REFUSED = re.compile(r"secret|file|template|custom-columns", re.IGNORECASE)
_SYSTEMCTL = "alq n: t: --all --full --no-pager --user --type: --state: --lines: --quiet --failed"
_DOCKER = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")
_DOCKER_LIST = "aqs n: f: l --all --quiet --size --no-trunc --last: --latest --filter: --format:"


def _texts(spec: str = "", *, most: int | None = None, least: int = 0) -> Program:
    return Program(Options.of(spec), TEXTS, most=most, least=least)


def _alone(spec: str = "") -> Program:
    return Program(Options.of(spec), NONE)


def _files(spec: str = "", *, numeric: bool = False) -> Program:
    """A filter that reads the files it is given and has no option that does harm."""
    return Program(Options.of(spec), numeric=numeric, globs=True)


def _few(spec: str, most: int) -> Program:
    return Program(Options.of(spec), most=most)


def _docker(spec: str, operands: Operands = NONE) -> Program:
    return Program(Options.of(spec), operands, variables=_DOCKER)


def _kubectl(spec: str) -> Program:
    return Program(Options.of(spec), TEXTS, refused=_KUBECTL_REFUSED, variables=("KUBECONFIG",))


_PROGRAMS: dict[str, Program | Reader] = {
    "ls": Program(
        Options.of(
            "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1 I: w: T:"
            " --all --almost-all --author --classify --color --directory --full-time"
            " --group-directories-first --hide: --human-readable --inode --kibibytes --no-group"
            " --numeric-uid-gid --recursive --reverse --size --si --sort: --time: --time-style:"
            " --format: --ignore: --indicator-style: --quoting-style: --width: --zero"
        ),
        globs=True,
        here=True,
    ),
    "tree": Program(
        Options.of(
            "adfipsughDFqNQvtcrUCnSJA L: I: P:"
            " --dirsfirst --filesfirst --noreport --prune --du --si --inodes --device --gitignore"
            " --filelimit: --sort: --charset: --matchdirs --ignore-case --metafirst --timefmt:"
        ),
        here=True,
    ),
    "cat": _files("AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends"),
    "tac": _files("br s: --before --regex --separator:"),
    "rev": _files(),
    "nl": _files("p b: d: f: h: i: l: n: s: v: w: --body-numbering:"),
    "head": _files("qvz n: c: --lines: --bytes: --quiet --silent --verbose", numeric=True),
    "tail": _files(
        "fFqrvz n: c: s: --lines: --bytes: --quiet --silent --verbose --follow --retry --pid:"
        " --sleep-interval:",
        numeric=True,
    ),
    "wc": _files("clmwL --bytes --chars --lines --words --max-line-length"),
    "cut": _files(
        "nsz b: c: d: f: --bytes: --characters: --delimiter: --fields: --only-delimited"
        " --complement --output-delimiter:"
    ),
    "tr": _texts("cCdst --complement --delete --squeeze-repeats --truncate-set1", most=2),
    "uniq": _few("cdDiuz f: s: w: --count --repeated --unique --ignore-case", 1),
    # As a filter only: with files the corpora of others call it unsafe.
    "sort": _alone(
        "bcCdfghiMnrRsuVz k: t: --reverse --unique --numeric-sort --human-numeric-sort"
        " --version-sort --ignore-case --key: --field-separator: --check --stable"
    ),
    "column": _files("tenxdLR s: c: o: N: --table --separator: --output-separator: --json"),
    "fold": _files("bs w: --width:"),
    "fmt": _files("cstu p: w: g: --width:"),
    "expand": _files("i t: --tabs:"),
    "unexpand": _files("a t: --tabs:"),
    "paste": _files("sz d: --serial --delimiters:"),
    "join": _few("iz a: e: j: o: t: v: 1: 2:", 2),
    "comm": _few("123iz --check-order --nocheck-order --total --output-delimiter:", 2),
    "cmp": Program(
        Options.of("bls n: i: --print-bytes --silent --quiet --verbose --bytes: --ignore-initial:"),
        most=2,
    ),
    "diff": Program(
        Options.of(
            "abBcdeEiNnpqrstuwyTZ U: C: W: I: x: F: L:"
            " --unified --context --brief --recursive --new-file --ignore-case --ignore-all-space"
            " --ignore-blank-lines --ignore-space-change --side-by-side --color --minimal --text"
            " --suppress-common-lines --strip-trailing-cr --report-identical-files --exclude:"
            " --width: --label:"
        ),
        most=2,
        least=2,
        # Of two directories it compares what is in them, whatever a link there leads to.
        sweeps=True,
        follows=True,
    ),
    "tsort": _files(),
    "pr": _files("adFfmrtT h: l: o: w: W: n", numeric=True),
    "od": _files("bcdfhilosvx A: j: N: t: w: S: --address-radix: --format: --skip-bytes:"),
    "xxd": _few("abCEeipu c: g: l: n: o: s:", 1),
    "hexdump": _files("bcCdovx n: s: e:"),
    # `@file` is a file full of arguments.
    "strings": Program(
        Options.of("a n: t: e: o --all --bytes: --radix: --encoding:"), refused=re.compile(r"^@")
    ),
    "base64": _few("d i w: --decode --ignore-garbage --wrap:", 1),
    "base32": _few("d i w: --decode --ignore-garbage --wrap:", 1),
    "cksum": _SUMS,
    "sum": _files("rs"),
    "md5sum": _SUMS,
    "b2sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": _files("bt a: --algorithm:"),
    # Not with globs: one of its options writes a file.
    "file": Program(
        Options.of("bikhINnr0 F: --brief --mime --mime-type --mime-encoding --keep-going")
    ),
    "stat": _files("fLtx c: --format: --printf: --file-system --dereference --terse"),
    "du": Program(
        Options.of(
            "abchkmsSx0 d: t: B: --all --apparent-size --bytes --total --human-readable --summarize"
            " --max-depth: --si --separate-dirs --one-file-system --time --exclude: --block-size:"
        ),
        globs=True,
        here=True,
    ),
    "df": _files("ahHiklmPTx t: --human-readable --inodes --print-type --total --si --all"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "ripgrep": _RG,
    "fd": _FD,
    "fdfind": _FD,
    "find": safe_scripts.find,
    "sed": safe_scripts.sed,
    "test": safe_scripts.test,
    "[": safe_scripts.bracket,
    "printf": safe_scripts.printf,
    "ps": safe_scripts.ps,
    "jq": safe_scripts.jq,
    "cd": Program(_NOTHING, most=1, least=1, variables=("CDPATH",)),
    "pwd": _alone("LP"),
    "echo": safe_scripts.echo,
    "true": _alone(),
    "false": _alone(),
    ":": _alone(),
    "sleep": Program(_NOTHING, TEXTS, most=1, least=1, operand=_DIGITS),
    "seq": _texts("w f: s: --equal-width --format: --separator:"),
    "expr": _texts(),
    "numfmt": _texts(
        "d: --from: --to: --suffix: --padding: --field: --header --format: --round: --invalid:"
        " --delimiter: --grouping"
    ),
    "basename": _texts("az s: --multiple --suffix:"),
    "dirname": _texts("z"),
    "realpath": _files("eLmPqsz --canonicalize-existing --canonicalize-missing --strip"),
    "readlink": _files("efmnqsvz --canonicalize --no-newline"),
    "which": _texts("as --all"),
    "whereis": _texts("bms"),
    "type": _texts("aptPf", least=1),
    "date": Program(
        Options.of("uRI d: --utc --universal --rfc-email --iso-8601 --rfc-3339: --date:"),
        TEXTS,
        most=1,
        operand=_DATE,
    ),
    "cal": _texts("1 3 y m j"),
    "uname": _alone("asnrvmpio --all --kernel-name --kernel-release --machine"),
    "arch": _alone(),
    "nproc": _alone("--all"),
    "hostname": _alone("s --short"),
    "whoami": _alone(),
    "id": _texts("uggGnr --user --group --groups --name --real", most=1),
    "groups": _texts(most=1),
    "logname": _alone(),
    "tty": _alone("s"),
    "uptime": _alone("ps --pretty --since"),
    "free": _alone("bkmgthwl --human --mega --giga --total --wide"),
    "locale": _alone("a"),
    "env": _alone(),
    "printenv": _texts("0"),
    "getconf": _texts("a"),
    "lscpu": _alone("abcey --all --json --online --offline"),
    "lsblk": _alone("afJlmnpt o: --all --fs --json --list --output: --paths"),
    "vmstat": _texts("awSsd"),
    "who": _alone("abHqrTu --all --count --heading"),
    "w": _alone("hs"),
    "tput": Program(_NOTHING, TEXTS, most=1, operand=re.compile("cols|lines|colors|longname")),
    "pgrep": _texts("aclnofxvi u: U: P: g: t: --full --list-name --list-full --count --exact"),
    "lsof": safe_scripts.lsof,
    "ss": _alone("tulnpaxsemoi46HO --tcp --udp --listening --numeric --processes --all"),
    "netstat": _alone("tulpnasei46 --tcp --udp --listening --numeric --programs"),
}

_SUBCOMMANDS: dict[tuple[str, ...], Program] = {
    ("command", "-v"): _texts(least=1),
    ("command", "-V"): _texts(least=1, most=1),
    ("ip", "addr"): _alone(),
    ("ip", "addr", "show"): _texts(),
    ("ip", "a"): _alone(),
    ("ip", "route"): _alone(),
    ("ip", "route", "show"): _texts(),
    ("ip", "link"): _alone(),
    ("ip", "link", "show"): _texts(),
    ("systemctl", "status"): _texts(_SYSTEMCTL),
    ("systemctl", "is-active"): _texts(_SYSTEMCTL),
    ("systemctl", "is-enabled"): _texts(_SYSTEMCTL),
    ("systemctl", "list-units"): _texts(_SYSTEMCTL),
    ("systemctl", "list-unit-files"): _texts(_SYSTEMCTL),
    ("systemctl", "show"): _texts(f"{_SYSTEMCTL} p: --property: --value"),
    # They speak to the servers of the user's own configuration, and to no other.
    ("docker", "ps"): _docker(_DOCKER_LIST),
    ("docker", "container", "ls"): _docker(_DOCKER_LIST),
    ("docker", "images"): _docker(
        "aq f: --all --quiet --no-trunc --digests --filter: --format:", TEXTS
    ),
    ("docker", "image", "ls"): _docker("aq f: --all --quiet --filter: --format:", TEXTS),
    ("docker", "version"): _docker("f: --format:"),
    ("docker", "info"): _docker("f: --format:"),
    ("docker", "inspect"): _docker("s f: --size --format: --type:", TEXTS),
    ("docker", "logs"): _docker(
        "ft n: --follow --timestamps --details --tail: --since: --until:", TEXTS
    ),
    ("docker", "stats"): _docker("a --all --no-stream --no-trunc --format:", TEXTS),
    ("docker", "top"): _docker("", TEXTS),
    ("docker", "port"): _docker("", TEXTS),
    ("docker", "diff"): _docker("", TEXTS),
    ("docker", "history"): _docker("Hq --human --no-trunc --quiet --format:", TEXTS),
    ("docker", "volume", "ls"): _docker("q f: --quiet --filter: --format:"),
    ("docker", "network", "ls"): _docker("q f: --quiet --no-trunc --filter: --format:"),
    ("kubectl", "get"): _kubectl(f"{_KUBECTL} w --watch --sort-by: --field-selector: --no-headers"),
    ("kubectl", "describe"): _kubectl("A n: l: --all-namespaces --namespace: --selector:"),
    ("kubectl", "logs"): _kubectl(
        "fp c: n: l: --follow --previous --container: --namespace: --selector: --tail: --since:"
        " --timestamps --all-containers --prefix"
    ),
    ("kubectl", "explain"): _kubectl("--recursive --api-version:"),
    ("kubectl", "top"): _kubectl("A n: l: --all-namespaces --namespace: --selector: --containers"),
    ("kubectl", "version"): _kubectl("o: --client --output:"),
    ("kubectl", "api-resources"): _kubectl("o: --namespaced --verbs: --output:"),
    ("kubectl", "api-versions"): _kubectl(""),
    ("kubectl", "cluster-info"): _kubectl(""),
}

# What its own documentation calls the reading actions of each kind of thing.
_CRAFT_AGENT = {
    "label": ("list", "get"),
    "source": ("list", "get", "validate"),
    "skill": ("list", "get", "validate", "where"),
    "automation": ("list", "get", "validate", "history", "last-executed", "lint"),
    "permission": ("list", "get", "validate"),
    "theme": ("get", "validate", "list-presets"),
}


def _craft_agent() -> dict[tuple[str, ...], Program]:
    reading = _texts("--limit: --source:")
    actions = {
        ("craft-agent", kind, action): reading
        for kind, names in _CRAFT_AGENT.items()
        for action in names
    }
    return {
        **actions,
        ("craft-agent", "--help"): _alone(),
        ("craft-agent", "--version"): _alone(),
        ("craft-agent", "--discover"): _alone(),
    }


READING: Mapping[tuple[str, ...], Program | Reader] = MappingProxyType(
    {
        **{(name,): program for name, program in _PROGRAMS.items()},
        **_SUBCOMMANDS,
        **_craft_agent(),
        **GIT,
    }
)
"""By name, or by name and subcommand; the longest that fits is meant."""
