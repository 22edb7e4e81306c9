"""Subcommands of git that only read, unless a repository's configuration changes them."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell.arguments import Operands, OptionSpec, ProgramSpec

_DIFF_OPTIONS = (
    "pusRabwWzMCB U: S: G: O@ l: --patch --no-patch --raw --stat --numstat --shortstat --dirstat"
    " --summary --compact-summary --name-only --name-status --color --no-color --color-moved"
    " --word-diff --color-words --word-diff-regex: --no-renames --check --full-index --binary"
    " --abbrev --find-renames --find-copies --diff-filter: --pickaxe-all --pickaxe-regex --text"
    " --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space"
    " --ignore-blank-lines --function-context --exit-code --quiet --no-ext-diff --no-textconv"
    " --ignore-submodules --src-prefix: --dst-prefix: --no-prefix --unified: --minimal --patience"
    " --histogram --diff-algorithm: --inter-hunk-context: --patch-with-stat"
)
_LOG_OPTIONS = (
    "iEFPcmg n: L: --oneline --graph --all --decorate --no-decorate --branches --tags --remotes"
    " --first-parent --merges --no-merges --reverse --date: --since: --until: --after: --before:"
    " --author: --committer: --grep: --max-count: --skip: --format: --pretty --abbrev-commit"
    " --no-abbrev-commit --follow --full-history --simplify-merges --ancestry-path --left-right"
    " --left-only --right-only --cherry-pick --cherry-mark --topo-order --date-order --boundary"
    " --author-date-order --count --no-notes --no-walk --invert-grep --regexp-ignore-case --cc"
    " --full-diff --source --decorate-refs: --exclude: --min-parents: --max-parents: --parents"
    " --children --relative-date --walk-reflogs --simplify-by-decoration --all-match"
    " --extended-regexp --fixed-strings --perl-regexp --no-mailmap --use-mailmap"
)
_CONTENT_OPTIONS = frozenset(
    {
        *("-p", "-u", "-U", "-L", "-W", "-c", "-m", "--patch", "--unified", "--word-diff", "--cc"),
        *("--color-words", "--binary", "--function-context", "--patch-with-stat", "--full-diff"),
    }
)
"""Options with which `git log` shows the content of files."""

# Git verifies a signature with a program that the configuration names.
_SIGNATURE_FORMAT = re.compile(r"%G|signature", re.IGNORECASE)


def _build_program(
    spec: str,
    operands: Operands = Operands.PATHS,
    *,
    max_operands: int | None = None,
    numeric_flags: bool = False,
    reads_unnamed_files: bool = False,
    unnamed_file_flags: frozenset[str] = frozenset(),
) -> ProgramSpec:
    return ProgramSpec(
        OptionSpec.parse(spec),
        operands,
        max_operands=max_operands,
        numeric_flags=numeric_flags,
        reads_cwd=True,
        reads_unnamed_files=reads_unnamed_files,
        unnamed_file_flags=unnamed_file_flags,
        refused_pattern=_SIGNATURE_FORMAT,
        uses_repository=True,
    )


_HISTORY = _build_program(
    f"{_DIFF_OPTIONS} {_LOG_OPTIONS}", numeric_flags=True, unnamed_file_flags=_CONTENT_OPTIONS
)
_CONTENT = _build_program(
    f"{_DIFF_OPTIONS} {_LOG_OPTIONS}", numeric_flags=True, reads_unnamed_files=True
)
_LIST_OPTIONS = (
    "n --sort: --format: --contains: --no-contains: --points-at: --merged --no-merged --column"
    " --no-column --color --no-color --ignore-case"
)
_CONFIG_OPTIONS = (
    "lz --list --get --get-all --get-regexp --global --local --system --worktree --show-origin"
    " --show-scope --name-only --null --bool --int --path --type: --default:"
)
NONE, TEXTS = Operands.NONE, Operands.TEXTS

_READ_SUBCOMMANDS: dict[str, ProgramSpec] = {
    "--help": _build_program("", NONE),
    "--version": _build_program("", NONE),
    "version": _build_program("--build-options", NONE),
    "status": _build_program(
        "sbvuznoalrm --short --branch --show-stash --porcelain --long --verbose --untracked-files"
        " --ignore-submodules --ignored --column --no-column --ahead-behind --no-ahead-behind"
        " --renames --no-renames --find-renames"
    ),
    "log": _HISTORY,
    "whatchanged": _HISTORY,
    "show": _CONTENT,
    "diff": _build_program(
        f"{_DIFF_OPTIONS} --cached --staged --merge-base --relative", reads_unnamed_files=True
    ),
    "branch": _build_program(
        "arv --all --remotes --verbose --list --show-current --contains --merged --no-merged"
        " --points-at: --sort: --format: --no-color --no-column --ignore-case --abbrev",
        NONE,
    ),
    "tag": _build_program(_LIST_OPTIONS, NONE),
    "tag -l": _build_program(_LIST_OPTIONS, TEXTS),
    "tag --list": _build_program(_LIST_OPTIONS, TEXTS),
    "remote": _build_program("v --verbose", NONE),
    "remote get-url": _build_program("--all --push", TEXTS, max_operands=1),
    "stash list": _HISTORY,
    "stash show": _build_program(
        f"{_DIFF_OPTIONS} --include-untracked", TEXTS, max_operands=1, reads_unnamed_files=True
    ),
    "worktree list": _build_program("vz --porcelain --verbose", NONE),
    "reflog": _build_program(
        f"{_DIFF_OPTIONS} {_LOG_OPTIONS}",
        NONE,
        numeric_flags=True,
        unnamed_file_flags=_CONTENT_OPTIONS,
    ),
    "reflog show": _HISTORY,
    "rev-parse": _build_program(
        "q --abbrev-ref --short --show-toplevel --git-dir --git-common-dir --absolute-git-dir"
        " --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository"
        " --show-prefix --show-cdup --verify --quiet --symbolic --symbolic-full-name --all"
        " --branches --tags --remotes",
        TEXTS,
    ),
    "rev-list": _build_program(f"n: {_LOG_OPTIONS} --objects", numeric_flags=True),
    "ls-files": _build_program(
        "cdmosiuktvfz x: --cached --deleted --modified --others --stage --ignored --unmerged"
        " --killed --directory --exclude-standard --exclude: --full-name --error-unmatch --abbrev"
    ),
    "ls-tree": _build_program(
        "rtdlz --name-only --name-status --long --full-tree --full-name --abbrev --object-only"
    ),
    "blame": _build_program(
        "psltfnwecMCb L: --porcelain --line-porcelain --show-name --show-number --show-email"
        " --date: --since: --root --abbrev --first-parent",
        reads_unnamed_files=True,
    ),
    "grep": ProgramSpec(
        OptionSpec.parse(
            "ivwEFPGnlLcohHpWqz e: A: B: C: m: --cached --ignore-case --invert-match --word-regexp"
            " --extended-regexp --fixed-strings --perl-regexp --line-number --column --name-only"
            " --files-with-matches --files-without-match --count --heading --break --color"
            " --no-color --show-function --function-context --and --or --not --all-match --quiet"
            " --full-name --max-depth: --max-count: --after-context: --before-context: --context:"
        ),
        Operands.PATTERN,
        reads_cwd=True,
        reads_unnamed_files=True,
        uses_repository=True,
    ),
    "cat-file": _build_program("ptse", TEXTS, max_operands=2, reads_unnamed_files=True),
    "describe": _build_program(
        "--tags --all --always --long --dirty --abbrev --match: --exclude: --contains --exact-match"
        " --candidates: --first-parent",
        TEXTS,
    ),
    "shortlog": _build_program(
        "sne --summary --numbered --email --since: --until: --all --no-merges"
    ),
    "show-ref": _build_program(
        "dsq --heads --branches --tags --dereference --hash --verify --quiet --abbrev", TEXTS
    ),
    "for-each-ref": _build_program(
        "--count: --sort: --format: --points-at: --merged --no-merged --contains: --ignore-case",
        TEXTS,
    ),
    "merge-base": _build_program(
        "a --all --octopus --is-ancestor --fork-point --independent", TEXTS
    ),
    "name-rev": _build_program("--tags --name-only --all --always --refs: --exclude:", TEXTS),
    "count-objects": _build_program("vH --verbose --human-readable", NONE),
    "check-ignore": _build_program("qvzn --quiet --verbose --non-matching --no-index"),
    "config": _build_program(_CONFIG_OPTIONS, TEXTS, max_operands=1),
    "config get": _build_program(_CONFIG_OPTIONS, TEXTS, max_operands=1),
    "config list": _build_program(_CONFIG_OPTIONS, NONE),
}

GIT_PROGRAMS: Mapping[tuple[str, ...], ProgramSpec] = MappingProxyType(
    {("git", *name.split()): program for name, program in _READ_SUBCOMMANDS.items()}
)
