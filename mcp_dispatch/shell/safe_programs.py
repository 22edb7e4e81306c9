"""Programs that only read, each with the options that keep it read-only.

A program or an option that is not listed is not read-only. Left out on purpose are interpreters,
pagers, programs that connect to an address from their arguments, and every option that writes,
runs a program, reads arguments from a file or has another meaning in another version.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell import safe_scripts
from mcp_dispatch.shell.arguments import (
    ArgumentAnalyzer,
    Operands,
    OptionSpec,
    ProgramSpec,
    accept_few_files,
    accept_files,
    accept_nothing,
    accept_texts,
)
from mcp_dispatch.shell.safe_git import GIT_PROGRAMS
from mcp_dispatch.shell.safe_subcommands import SUBCOMMANDS

NONE, TEXTS, PATHS, PATTERN = Operands.NONE, Operands.TEXTS, Operands.PATHS, Operands.PATTERN

SHELL_BUILTINS = frozenset(
    {"cd", "command", "echo", "false", "printf", "pwd", "test", "[", "true", "type", ":"}
)
"""Commands of bash itself, for which no program file is looked up."""

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
    "cat": accept_files(
        "AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends"
    ),
    "tac": accept_files("br s: --before --regex --separator:"),
    "rev": accept_files(),
    "nl": accept_files("p b: d: f: h: i: l: n: s: v: w: --body-numbering:"),
    "head": accept_files(
        "qvz n: c: --lines: --bytes: --quiet --silent --verbose", numeric_flags=True
    ),
    "tail": accept_files(
        "fFqrvz n: c: s: --lines: --bytes: --quiet --silent --verbose --follow --retry --pid:"
        " --sleep-interval:",
        numeric_flags=True,
    ),
    "wc": accept_files("clmwL --bytes --chars --lines --words --max-line-length"),
    "cut": accept_files(
        "nsz b: c: d: f: --bytes: --characters: --delimiter: --fields: --only-delimited"
        " --complement --output-delimiter:"
    ),
    "tr": accept_texts(
        "cCdst --complement --delete --squeeze-repeats --truncate-set1", max_operands=2
    ),
    "uniq": accept_few_files("cdDiuz f: s: w: --count --repeated --unique --ignore-case", 1),
    # As a filter only: other projects' test corpora call it unsafe with files.
    "sort": accept_nothing(
        "bcCdfghiMnrRsuVz k: t: --reverse --unique --numeric-sort --human-numeric-sort"
        " --version-sort --ignore-case --key: --field-separator: --check --stable"
    ),
    "column": accept_files("tenxdLR s: c: o: N: --table --separator: --output-separator: --json"),
    "fold": accept_files("bs w: --width:"),
    "fmt": accept_files("cstu p: w: g: --width:"),
    "expand": accept_files("i t: --tabs:"),
    "unexpand": accept_files("a t: --tabs:"),
    "paste": accept_files("sz d: --serial --delimiters:"),
    "join": accept_few_files("iz a: e: j: o: t: v: 1: 2:", 2),
    "comm": accept_few_files("123iz --check-order --nocheck-order --total --output-delimiter:", 2),
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
        # It compares the files in two directories and follows links in them.
        reads_unnamed_files=True,
        follows_links=True,
    ),
    "tsort": accept_files(),
    "pr": accept_files("adFfmrtT h: l: o: w: W: n", numeric_flags=True),
    "od": accept_files("bcdfhilosvx A: j: N: t: w: S: --address-radix: --format: --skip-bytes:"),
    "xxd": accept_few_files("abCEeipu c: g: l: n: o: s:", 1),
    "hexdump": accept_files("bcCdovx n: s: e:"),
    # `@file` names a file of arguments.
    "strings": ProgramSpec(
        OptionSpec.parse("a n: t: e: o --all --bytes: --radix: --encoding:"),
        refused_pattern=re.compile(r"^@"),
    ),
    "base64": accept_few_files("d i w: --decode --ignore-garbage --wrap:", 1),
    "base32": accept_few_files("d i w: --decode --ignore-garbage --wrap:", 1),
    "cksum": _SUMS,
    "sum": accept_files("rs"),
    "md5sum": _SUMS,
    "b2sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "shasum": accept_files("bt a: --algorithm:"),
    # Without globs, which could become the option that writes a file.
    "file": ProgramSpec(
        OptionSpec.parse("bikhINnr0 F: --brief --mime --mime-type --mime-encoding --keep-going")
    ),
    "stat": accept_files("fLtx c: --format: --printf: --file-system --dereference --terse"),
    "du": ProgramSpec(
        OptionSpec.parse(
            "abchkmsSx0 d: t: B: --all --apparent-size --bytes --total --human-readable --summarize"
            " --max-depth: --si --separate-dirs --one-file-system --time --exclude: --block-size:"
        ),
        accepts_globs=True,
        reads_cwd=True,
    ),
    "df": accept_files("ahHiklmPTx t: --human-readable --inodes --print-type --total --si --all"),
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
    "pwd": accept_nothing("LP"),
    "echo": safe_scripts.analyze_echo,
    "true": accept_nothing(),
    "false": accept_nothing(),
    ":": accept_nothing(),
    "sleep": ProgramSpec(
        _NO_OPTIONS, TEXTS, max_operands=1, min_operands=1, operand_pattern=_DURATION
    ),
    "seq": accept_texts("w f: s: --equal-width --format: --separator:"),
    "expr": accept_texts(),
    "numfmt": accept_texts(
        "d: --from: --to: --suffix: --padding: --field: --header --format: --round: --invalid:"
        " --delimiter: --grouping"
    ),
    "basename": accept_texts("az s: --multiple --suffix:"),
    "dirname": accept_texts("z"),
    "realpath": accept_files("eLmPqsz --canonicalize-existing --canonicalize-missing --strip"),
    "readlink": accept_files("efmnqsvz --canonicalize --no-newline"),
    "which": accept_texts("as --all"),
    "whereis": accept_texts("bms"),
    "type": accept_texts("aptPf", min_operands=1),
    "date": ProgramSpec(
        OptionSpec.parse("uRI d: --utc --universal --rfc-email --iso-8601 --rfc-3339: --date:"),
        TEXTS,
        max_operands=1,
        operand_pattern=_DATE_FORMAT,
    ),
    "cal": accept_texts("1 3 y m j"),
    "uname": accept_nothing("asnrvmpio --all --kernel-name --kernel-release --machine"),
    "arch": accept_nothing(),
    "nproc": accept_nothing("--all"),
    "hostname": accept_nothing("s --short"),
    "whoami": accept_nothing(),
    "id": accept_texts("uggGnr --user --group --groups --name --real", max_operands=1),
    "groups": accept_texts(max_operands=1),
    "logname": accept_nothing(),
    "tty": accept_nothing("s"),
    "uptime": accept_nothing("ps --pretty --since"),
    "free": accept_nothing("bkmgthwl --human --mega --giga --total --wide"),
    "locale": accept_nothing("a"),
    "env": accept_nothing(),
    "printenv": accept_texts("0"),
    "getconf": accept_texts("a"),
    "lscpu": accept_nothing("abcey --all --json --online --offline"),
    "lsblk": accept_nothing("afJlmnpt o: --all --fs --json --list --output: --paths"),
    "vmstat": accept_texts("awSsd"),
    "who": accept_nothing("abHqrTu --all --count --heading"),
    "w": accept_nothing("hs"),
    "tput": ProgramSpec(
        _NO_OPTIONS, TEXTS, max_operands=1, operand_pattern=re.compile("cols|lines|colors|longname")
    ),
    "pgrep": accept_texts(
        "aclnofxvi u: U: P: g: t: --full --list-name --list-full --count --exact"
    ),
    "lsof": safe_scripts.analyze_lsof,
    "ss": accept_nothing("tulnpaxsemoi46HO --tcp --udp --listening --numeric --processes --all"),
    "netstat": accept_nothing("tulpnasei46 --tcp --udp --listening --numeric --programs"),
}

READ_ONLY_PROGRAMS: Mapping[tuple[str, ...], ProgramSpec | ArgumentAnalyzer] = MappingProxyType(
    {
        **{(name,): program for name, program in _PROGRAMS.items()},
        **SUBCOMMANDS,
        **GIT_PROGRAMS,
    }
)
"""Specs by program name, or by program and subcommand; the longest match applies."""
