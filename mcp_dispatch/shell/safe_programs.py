"""The programs that can be used to look without touching, each with the options that keep it so.

A name that is not here, an option that is not here: not read-only. Left out on purpose are
interpreters, pagers, whatever opens connections to a place it is told, and every option that
writes, runs a program, reads its arguments from a file or takes one from another version's list.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell import safe_scripts
from mcp_dispatch.shell.arguments import ArgumentAnalyzer, Operands, OptionSpec, ProgramSpec
from mcp_dispatch.shell.safe_git import GIT_PROGRAMS

NONE, TEXTS, PATHS, PATTERN = Operands.NONE, Operands.TEXTS, Operands.PATHS, Operands.PATTERN

SHELL_BUILTINS = frozenset(
    {"cd", "command", "echo", "false", "printf", "pwd", "test", "[", "true", "type", ":"}
)
"""What bash itself does: no file of that name is run."""

_NO_OPTIONS = OptionSpec.parse("")
_SUMS = ProgramSpec(OptionSpec.parse("bt --binary --text --tag"), accepts_globs=True)
_GREP = ProgramSpec(
    OptionSpec.parse(
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
    min_operands=0,
    numeric_flags=True,
    accepts_globs=True,
    unnamed_file_flags=frozenset({"-r", "-R", "-d", "--recursive", "--dereference-recursive"}),
    link_following_flags=frozenset({"-R", "--dereference-recursive"}),
)
_RG = ProgramSpec(
    OptionSpec.parse(
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
    numeric_flags=False,
    reads_unnamed_files=True,
    unsafe_variables=("RIPGREP_CONFIG_PATH",),
)
_FD = ProgramSpec(
    OptionSpec.parse(
        "HIuisgFap01q e: t: E: d: S: c: j:"
        " --hidden --no-ignore --no-ignore-vcs --unrestricted --ignore-case --case-sensitive"
        " --glob --fixed-strings --absolute-path --full-path --print0 --quiet --prune"
        " --extension: --type: --exclude: --max-depth: --min-depth: --exact-depth: --size: --color:"
        " --changed-within: --changed-before: --max-results:"
    ),
    PATTERN,
    reads_cwd=True,
)
_DURATION = re.compile(r"[0-9.]+[smhd]?")
_DATE_FORMAT = re.compile(r"\+.*", re.DOTALL)
_KUBECTL_OPTIONS = "A n: l: o: L: --all-namespaces --namespace: --selector: --output: --show-labels"
_KUBECTL_REFUSED = re.compile(r"secret|file|template|custom-columns", re.IGNORECASE)
_SYSTEMCTL_OPTIONS = (
    "alq n: t: --all --full --no-pager --user --type: --state: --lines: --quiet --failed"
)
_DOCKER_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG")
_DOCKER_LIST_OPTIONS = (
    "aqs n: f: l --all --quiet --size --no-trunc --last: --latest --filter: --format:"
)


def _accept_texts(
    spec: str = "", *, max_operands: int | None = None, min_operands: int = 0
) -> ProgramSpec:
    return ProgramSpec(
        OptionSpec.parse(spec), TEXTS, max_operands=max_operands, min_operands=min_operands
    )


def _accept_nothing(spec: str = "") -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), NONE)


def _accept_files(spec: str = "", *, numeric_flags: bool = False) -> ProgramSpec:
    """A filter that reads the files it is given and has no option that does harm."""
    return ProgramSpec(OptionSpec.parse(spec), numeric_flags=numeric_flags, accepts_globs=True)


def _accept_few_files(spec: str, max_operands: int) -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), max_operands=max_operands)


def _build_docker(spec: str, operands: Operands = NONE) -> ProgramSpec:
    return ProgramSpec(OptionSpec.parse(spec), operands, unsafe_variables=_DOCKER_VARIABLES)


def _build_kubectl(spec: str) -> ProgramSpec:
    return ProgramSpec(
        OptionSpec.parse(spec),
        TEXTS,
        refused_pattern=_KUBECTL_REFUSED,
        unsafe_variables=("KUBECONFIG",),
    )


_PROGRAMS: dict[str, ProgramSpec | ArgumentAnalyzer] = {
    "ls": ProgramSpec(
        OptionSpec.parse(
            "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1 I: w: T:"
            " --all --almost-all --author --classify --color --directory --full-time"
            " --group-directories-first --hide: --human-readable --inode --kibibytes --no-group"
            " --numeric-uid-gid --recursive --reverse --size --si --sort: --time: --time-style:"
            " --format: --ignore: --indicator-style: --quoting-style: --width: --zero"
        ),
        accepts_globs=True,
        reads_cwd=True,
    ),
    "tree": ProgramSpec(
        OptionSpec.parse(
            "adfipsughDFqNQvtcrUCnSJA L: I: P:"
            " --dirsfirst --filesfirst --noreport --prune --du --si --inodes --device --gitignore"
            " --filelimit: --sort: --charset: --matchdirs --ignore-case --metafirst --timefmt:"
        ),
        reads_cwd=True,
    ),
    "cat": _accept_files(
        "AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends"
    ),
    "tac": _accept_files("br s: --before --regex --separator:"),
    "rev": _accept_files(),
    "nl": _accept_files("p b: d: f: h: i: l: n: s: v: w: --body-numbering:"),
    "head": _accept_files(
        "qvz n: c: --lines: --bytes: --quiet --silent --verbose", numeric_flags=True
    ),
    "tail": _accept_files(
        "fFqrvz n: c: s: --lines: --bytes: --quiet --silent --verbose --follow --retry --pid:"
        " --sleep-interval:",
        numeric_flags=True,
    ),
    "wc": _accept_files("clmwL --bytes --chars --lines --words --max-line-length"),
    "cut": _accept_files(
        "nsz b: c: d: f: --bytes: --characters: --delimiter: --fields: --only-delimited"
        " --complement --output-delimiter:"
    ),
    "tr": _accept_texts(
        "cCdst --complement --delete --squeeze-repeats --truncate-set1", max_operands=2
    ),
    "uniq": _accept_few_files("cdDiuz f: s: w: --count --repeated --unique --ignore-case", 1),
    # As a filter only: with files the corpora of others call it unsafe.
    "sort": _accept_nothing(
        "bcCdfghiMnrRsuVz k: t: --reverse --unique --numeric-sort --human-numeric-sort"
        " --version-sort --ignore-case --key: --field-separator: --check --stable"
    ),
    "column": _accept_files("tenxdLR s: c: o: N: --table --separator: --output-separator: --json"),
    "fold": _accept_files("bs w: --width:"),
    "fmt": _accept_files("cstu p: w: g: --width:"),
    "expand": _accept_files("i t: --tabs:"),
    "unexpand": _accept_files("a t: --tabs:"),
    "paste": _accept_files("sz d: --serial --delimiters:"),
    "join": _accept_few_files("iz a: e: j: o: t: v: 1: 2:", 2),
    "comm": _accept_few_files("123iz --check-order --nocheck-order --total --output-delimiter:", 2),
    "cmp": ProgramSpec(
        OptionSpec.parse(
            "bls n: i: --print-bytes --silent --quiet --verbose --bytes: --ignore-initial:"
        ),
        max_operands=2,
    ),
    "diff": ProgramSpec(
        OptionSpec.parse(
            "abBcdeEiNnpqrstuwyTZ U: C: W: I: x: F: L:"
            " --unified --context --brief --recursive --new-file --ignore-case --ignore-all-space"
            " --ignore-blank-lines --ignore-space-change --side-by-side --color --minimal --text"
            " --suppress-common-lines --strip-trailing-cr --report-identical-files --exclude:"
            " --width: --label:"
        ),
        max_operands=2,
        min_operands=2,
        # Of two directories it compares what is in them, whatever a link there leads to.
        reads_unnamed_files=True,
        follows_links=True,
    ),
    "tsort": _accept_files(),
    "pr": _accept_files("adFfmrtT h: l: o: w: W: n", numeric_flags=True),
    "od": _accept_files("bcdfhilosvx A: j: N: t: w: S: --address-radix: --format: --skip-bytes:"),
    "xxd": _accept_few_files("abCEeipu c: g: l: n: o: s:", 1),
    "hexdump": _accept_files("bcCdovx n: s: e:"),
    # `@file` is a file full of arguments.
    "strings": ProgramSpec(
        OptionSpec.parse("a n: t: e: o --all --bytes: --radix: --encoding:"),
        refused_pattern=re.compile(r"^@"),
    ),
    "base64": _accept_few_files("d i w: --decode --ignore-garbage --wrap:", 1),
    "base32": _accept_few_files("d i w: --decode --ignore-garbage --wrap:", 1),
    "cksum": _SUMS,
    "sum": _accept_files("rs"),
    "md5sum": _SUMS,
    "b2sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": _accept_files("bt a: --algorithm:"),
    # Not with globs: one of its options writes a file.
    "file": ProgramSpec(
        OptionSpec.parse("bikhINnr0 F: --brief --mime --mime-type --mime-encoding --keep-going")
    ),
    "stat": _accept_files("fLtx c: --format: --printf: --file-system --dereference --terse"),
    "du": ProgramSpec(
        OptionSpec.parse(
            "abchkmsSx0 d: t: B: --all --apparent-size --bytes --total --human-readable --summarize"
            " --max-depth: --si --separate-dirs --one-file-system --time --exclude: --block-size:"
        ),
        accepts_globs=True,
        reads_cwd=True,
    ),
    "df": _accept_files("ahHiklmPTx t: --human-readable --inodes --print-type --total --si --all"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "ripgrep": _RG,
    "fd": _FD,
    "fdfind": _FD,
    "find": safe_scripts.analyze_find,
    "sed": safe_scripts.analyze_sed,
    "test": safe_scripts.analyze_test,
    "[": safe_scripts.analyze_bracket,
    "printf": safe_scripts.analyze_printf,
    "ps": safe_scripts.analyze_ps,
    "jq": safe_scripts.analyze_jq,
    "cd": ProgramSpec(_NO_OPTIONS, max_operands=1, min_operands=1, unsafe_variables=("CDPATH",)),
    "pwd": _accept_nothing("LP"),
    "echo": safe_scripts.analyze_echo,
    "true": _accept_nothing(),
    "false": _accept_nothing(),
    ":": _accept_nothing(),
    "sleep": ProgramSpec(
        _NO_OPTIONS, TEXTS, max_operands=1, min_operands=1, operand_pattern=_DURATION
    ),
    "seq": _accept_texts("w f: s: --equal-width --format: --separator:"),
    "expr": _accept_texts(),
    "numfmt": _accept_texts(
        "d: --from: --to: --suffix: --padding: --field: --header --format: --round: --invalid:"
        " --delimiter: --grouping"
    ),
    "basename": _accept_texts("az s: --multiple --suffix:"),
    "dirname": _accept_texts("z"),
    "realpath": _accept_files("eLmPqsz --canonicalize-existing --canonicalize-missing --strip"),
    "readlink": _accept_files("efmnqsvz --canonicalize --no-newline"),
    "which": _accept_texts("as --all"),
    "whereis": _accept_texts("bms"),
    "type": _accept_texts("aptPf", min_operands=1),
    "date": ProgramSpec(
        OptionSpec.parse("uRI d: --utc --universal --rfc-email --iso-8601 --rfc-3339: --date:"),
        TEXTS,
        max_operands=1,
        operand_pattern=_DATE_FORMAT,
    ),
    "cal": _accept_texts("1 3 y m j"),
    "uname": _accept_nothing("asnrvmpio --all --kernel-name --kernel-release --machine"),
    "arch": _accept_nothing(),
    "nproc": _accept_nothing("--all"),
    "hostname": _accept_nothing("s --short"),
    "whoami": _accept_nothing(),
    "id": _accept_texts("uggGnr --user --group --groups --name --real", max_operands=1),
    "groups": _accept_texts(max_operands=1),
    "logname": _accept_nothing(),
    "tty": _accept_nothing("s"),
    "uptime": _accept_nothing("ps --pretty --since"),
    "free": _accept_nothing("bkmgthwl --human --mega --giga --total --wide"),
    "locale": _accept_nothing("a"),
    "env": _accept_nothing(),
    "printenv": _accept_texts("0"),
    "getconf": _accept_texts("a"),
    "lscpu": _accept_nothing("abcey --all --json --online --offline"),
    "lsblk": _accept_nothing("afJlmnpt o: --all --fs --json --list --output: --paths"),
    "vmstat": _accept_texts("awSsd"),
    "who": _accept_nothing("abHqrTu --all --count --heading"),
    "w": _accept_nothing("hs"),
    "tput": ProgramSpec(
        _NO_OPTIONS, TEXTS, max_operands=1, operand_pattern=re.compile("cols|lines|colors|longname")
    ),
    "pgrep": _accept_texts(
        "aclnofxvi u: U: P: g: t: --full --list-name --list-full --count --exact"
    ),
    "lsof": safe_scripts.analyze_lsof,
    "ss": _accept_nothing("tulnpaxsemoi46HO --tcp --udp --listening --numeric --processes --all"),
    "netstat": _accept_nothing("tulpnasei46 --tcp --udp --listening --numeric --programs"),
}

_SUBCOMMANDS: dict[tuple[str, ...], ProgramSpec] = {
    ("command", "-v"): _accept_texts(min_operands=1),
    ("command", "-V"): _accept_texts(min_operands=1, max_operands=1),
    ("ip", "addr"): _accept_nothing(),
    ("ip", "addr", "show"): _accept_texts(),
    ("ip", "a"): _accept_nothing(),
    ("ip", "route"): _accept_nothing(),
    ("ip", "route", "show"): _accept_texts(),
    ("ip", "link"): _accept_nothing(),
    ("ip", "link", "show"): _accept_texts(),
    ("systemctl", "status"): _accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "is-active"): _accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "is-enabled"): _accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "list-units"): _accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "list-unit-files"): _accept_texts(_SYSTEMCTL_OPTIONS),
    ("systemctl", "show"): _accept_texts(f"{_SYSTEMCTL_OPTIONS} p: --property: --value"),
    # They speak to the servers of the user's own configuration, and to no other.
    ("docker", "ps"): _build_docker(_DOCKER_LIST_OPTIONS),
    ("docker", "container", "ls"): _build_docker(_DOCKER_LIST_OPTIONS),
    ("docker", "images"): _build_docker(
        "aq f: --all --quiet --no-trunc --digests --filter: --format:", TEXTS
    ),
    ("docker", "image", "ls"): _build_docker("aq f: --all --quiet --filter: --format:", TEXTS),
    ("docker", "version"): _build_docker("f: --format:"),
    ("docker", "info"): _build_docker("f: --format:"),
    ("docker", "inspect"): _build_docker("s f: --size --format: --type:", TEXTS),
    ("docker", "logs"): _build_docker(
        "ft n: --follow --timestamps --details --tail: --since: --until:", TEXTS
    ),
    ("docker", "stats"): _build_docker("a --all --no-stream --no-trunc --format:", TEXTS),
    ("docker", "top"): _build_docker("", TEXTS),
    ("docker", "port"): _build_docker("", TEXTS),
    ("docker", "diff"): _build_docker("", TEXTS),
    ("docker", "history"): _build_docker("Hq --human --no-trunc --quiet --format:", TEXTS),
    ("docker", "volume", "ls"): _build_docker("q f: --quiet --filter: --format:"),
    ("docker", "network", "ls"): _build_docker("q f: --quiet --no-trunc --filter: --format:"),
    ("kubectl", "get"): _build_kubectl(
        f"{_KUBECTL_OPTIONS} w --watch --sort-by: --field-selector: --no-headers"
    ),
    ("kubectl", "describe"): _build_kubectl("A n: l: --all-namespaces --namespace: --selector:"),
    ("kubectl", "logs"): _build_kubectl(
        "fp c: n: l: --follow --previous --container: --namespace: --selector: --tail: --since:"
        " --timestamps --all-containers --prefix"
    ),
    ("kubectl", "explain"): _build_kubectl("--recursive --api-version:"),
    ("kubectl", "top"): _build_kubectl(
        "A n: l: --all-namespaces --namespace: --selector: --containers"
    ),
    ("kubectl", "version"): _build_kubectl("o: --client --output:"),
    ("kubectl", "api-resources"): _build_kubectl("o: --namespaced --verbs: --output:"),
    ("kubectl", "api-versions"): _build_kubectl(""),
    ("kubectl", "cluster-info"): _build_kubectl(""),
}

# What its own documentation calls the reading actions of each kind of thing.
_CRAFT_AGENT_ACTIONS = {
    "label": ("list", "get"),
    "source": ("list", "get", "validate"),
    "skill": ("list", "get", "validate", "where"),
    "automation": ("list", "get", "validate", "history", "last-executed", "lint"),
    "permission": ("list", "get", "validate"),
    "theme": ("get", "validate", "list-presets"),
}


def _build_craft_agent() -> dict[tuple[str, ...], ProgramSpec]:
    reading = _accept_texts("--limit: --source:")
    actions = {
        ("craft-agent", kind, action): reading
        for kind, names in _CRAFT_AGENT_ACTIONS.items()
        for action in names
    }
    return {
        **actions,
        ("craft-agent", "--help"): _accept_nothing(),
        ("craft-agent", "--version"): _accept_nothing(),
        ("craft-agent", "--discover"): _accept_nothing(),
    }


READ_ONLY_PROGRAMS: Mapping[tuple[str, ...], ProgramSpec | ArgumentAnalyzer] = MappingProxyType(
    {
        **{(name,): program for name, program in _PROGRAMS.items()},
        **_SUBCOMMANDS,
        **_build_craft_agent(),
        **GIT_PROGRAMS,
    }
)
"""By name, or by name and subcommand; the longest that fits is meant."""
