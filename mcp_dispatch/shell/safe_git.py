"""The commands of git that only look, as far as a repository's configuration lets them."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from mcp_dispatch.shell.arguments import Operands, Options, Program

_DIFF = (
    "pusRabwWzMCB U: S: G: O@ l: --patch --no-patch --raw --stat --numstat --shortstat --dirstat"
    " --summary --compact-summary --name-only --name-status --color --no-color --color-moved"
    " --word-diff --color-words --word-diff-regex: --no-renames --check --full-index --binary"
    " --abbrev --find-renames --find-copies --diff-filter: --pickaxe-all --pickaxe-regex --text"
    " --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change --ignore-all-space"
    " --ignore-blank-lines --function-context --exit-code --quiet --no-ext-diff --no-textconv"
    " --ignore-submodules --src-prefix: --dst-prefix: --no-prefix --unified: --minimal --patience"
    " --histogram --diff-algorithm: --inter-hunk-context: --patch-with-stat"
)
_LOG = (
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
_SHOWN = frozenset(
    {
        *("-p", "-u", "-U", "-L", "-W", "-c", "-m", "--patch", "--unified", "--word-diff", "--cc"),
        *("--color-words", "--binary", "--function-context", "--patch-with-stat", "--full-diff"),
    }
)
"""With these, the history shows what is in the files."""

# A signature is verified by a program that a configuration names.
_SIGNATURE = re.compile(r"%G|signature", re.IGNORECASE)


def _program(
    spec: str,
    operands: Operands = Operands.PATHS,
    *,
    most: int | None = None,
    numeric: bool = False,
    sweeps: bool = False,
    sweeping: frozenset[str] = frozenset(),
) -> Program:
    return Program(
        Options.of(spec),
        operands,
        most=most,
        numeric=numeric,
        here=True,
        sweeps=sweeps,
        sweeping=sweeping,
        refused=_SIGNATURE,
        repository=True,
    )


_HISTORY = _program(f"{_DIFF} {_LOG}", numeric=True, sweeping=_SHOWN)
_CONTENT = _program(f"{_DIFF} {_LOG}", numeric=True, sweeps=True)
_LISTED = (
    "n --sort: --format: --contains: --no-contains: --points-at: --merged --no-merged --column"
    " --no-column --color --no-color --ignore-case"
)
_CONFIG = (
    "lz --list --get --get-all --get-regexp --global --local --system --worktree --show-origin"
    " --show-scope --name-only --null --bool --int --path --type: --default:"
)
NONE, TEXTS = Operands.NONE, Operands.TEXTS

_READS: dict[str, Program] = {
    "--help": _program("", NONE),
    "--version": _program("", NONE),
    "version": _program("--build-options", NONE),
    "status": _program(
        "sbvuznoalrm --short --branch --show-stash --porcelain --long --verbose --untracked-files"
        " --ignore-submodules --ignored --column --no-column --ahead-behind --no-ahead-behind"
        " --renames --no-renames --find-renames"
    ),
    "log": _HISTORY,
    "whatchanged": _HISTORY,
    "show": _CONTENT,
    "diff": _program(f"{_DIFF} --cached --staged --merge-base --relative", sweeps=True),
    "branch": _program(
        "arv --all --remotes --verbose --list --show-current --contains --merged --no-merged"
        " --points-at: --sort: --format: --no-color --no-column --ignore-case --abbrev",
        NONE,
    ),
    "tag": _program(_LISTED, NONE),
    "tag -l": _program(_LISTED, TEXTS),
    "tag --list": _program(_LISTED, TEXTS),
    "remote": _program("v --verbose", NONE),
    "remote get-url": _program("--all --push", TEXTS, most=1),
    "stash list": _HISTORY,
    "stash show": _program(f"{_DIFF} --include-untracked", TEXTS, most=1, sweeps=True),
    "worktree list": _program("vz --porcelain --verbose", NONE),
    "reflog": _program(f"{_DIFF} {_LOG}", NONE, numeric=True, sweeping=_SHOWN),
    "reflog show": _HISTORY,
    "rev-parse": _program(
        "q --abbrev-ref --short --show-toplevel --git-dir --git-common-dir --absolute-git-dir"
        " --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository"
        " --show-prefix --show-cdup --verify --quiet --symbolic --symbolic-full-name --all"
        " --branches --tags --remotes",
        TEXTS,
    ),
    "rev-list": _program(f"n: {_LOG} --objects", numeric=True),
    "ls-files": _program(
        "cdmosiuktvfz x: --cached --deleted --modified --others --stage --ignored --unmerged"
        " --killed --directory --exclude-standard --exclude: --full-name --error-unmatch --abbrev"
    ),
    "ls-tree": _program(
        "rtdlz --name-only --name-status --long --full-tree --full-name --abbrev --object-only"
    ),
    "blame": _program(
        "psltfnwecMCb L: --porcelain --line-porcelain --show-name --show-number --show-email"
        " --date: --since: --root --abbrev --first-parent",
        sweeps=True,
    ),
    "grep": Program(
        Options.of(
            "ivwEFPGnlLcohHpWqz e: A: B: C: m: --cached --ignore-case --invert-match --word-regexp"
            " --extended-regexp --fixed-strings --perl-regexp --line-number --column --name-only"
            " --files-with-matches --files-without-match --count --heading --break --color"
            " --no-color --show-function --function-context --and --or --not --all-match --quiet"
            " --full-name --max-depth: --max-count: --after-context: --before-context: --context:"
        ),
        Operands.PATTERN,
        here=True,
        sweeps=True,
        repository=True,
    ),
    "cat-file": _program("ptse", TEXTS, most=2, sweeps=True),
    "describe": _program(
        "--tags --all --always --long --dirty --abbrev --match: --exclude: --contains --exact-match"
        " --candidates: --first-parent",
        TEXTS,
    ),
    "shortlog": _program("sne --summary --numbered --email --since: --until: --all --no-merges"),
    "show-ref": _program(
        "dsq --heads --branches --tags --dereference --hash --verify --quiet --abbrev", TEXTS
    ),
    "for-each-ref": _program(
        "--count: --sort: --format: --points-at: --merged --no-merged --contains: --ignore-case",
        TEXTS,
    ),
    "merge-base": _program("a --all --octopus --is-ancestor --fork-point --independent", TEXTS),
    "name-rev": _program("--tags --name-only --all --always --refs: --exclude:", TEXTS),
    "count-objects": _program("vH --verbose --human-readable", NONE),
    "check-ignore": _program("qvzn --quiet --verbose --non-matching --no-index"),
    "config": _program(_CONFIG, TEXTS, most=1),
    "config get": _program(_CONFIG, TEXTS, most=1),
    "config list": _program(_CONFIG, NONE),
}

GIT: Mapping[tuple[str, ...], Program] = MappingProxyType(
    {("git", *name.split()): program for name, program in _READS.items()}
)
