"""Whether what a read-only command looks at may be seen without a question."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from mcp_dispatch.fs.resolve import PathAnchors, PathResolutionError, resolve_all_names
from mcp_dispatch.policy.commands.file_access import FileAccess
from mcp_dispatch.policy.facts import CallFacts, FileNames, resolve_accesses
from mcp_dispatch.policy.paths.hidden import HiddenPaths
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.deny_ask import DenyAskRules
from mcp_dispatch.shell.analyze import has_no_side_effects
from mcp_dispatch.shell.arguments import ReadSpec
from mcp_dispatch.shell.ast import Form, PlainScript, SimpleCommand
from mcp_dispatch.shell.safe_programs import SHELL_BUILTINS

MAX_FILES = 5_000
"""Files that are looked through to find out what a search would read."""

_ALWAYS_READABLE = frozenset({"/dev/null", "/dev/stdin"})


class ReadAccess:
    """Judges the commands of one call, one by one."""

    def __init__(
        self,
        facts: CallFacts,
        anchors: PathAnchors,
        working_directories: Sequence[Path],
        deny_ask_rules: DenyAskRules,
        protected_paths: ProtectedPaths,
    ) -> None:
        self._facts = facts
        self._anchors = anchors
        self._working_directories = working_directories
        self._deny_ask_rules = deny_ask_rules
        self._protected_paths = protected_paths
        self._results: dict[int, bool] = {}

    def can_read_all(self) -> bool:
        """Whether every command only looks, and at nothing but what may be seen.

        The files that redirects write are judged elsewhere.
        """
        read = self._facts.parsed_command
        if (
            read is None
            or not isinstance(read.script, PlainScript)
            or read.script.form is not Form.FLAT
        ):
            return False
        return all(map(self.can_read, range(len(read.script.commands))))

    def can_read(self, position: int) -> bool:
        """Of the command at that position of the text."""
        if position not in self._results:
            self._results[position] = self._check_command(position)
        return self._results[position]

    def _check_command(self, position: int) -> bool:
        read, shell = self._facts.parsed_command, self._facts.shell_access
        if read is None or shell is None or not isinstance(read.script, PlainScript):
            return False
        look, directories = read.read_specs[position], shell.command_directories[position]
        if look is None or not directories:
            return False
        return (
            self._is_system_program(read.script.commands[position])
            and self._has_no_side_effects(look, directories)
            and self._may_read(look, directories)
        )

    def _is_system_program(self, command: SimpleCommand) -> bool:
        """Whether no file of the workspace answers to the program's name."""
        name = command.words[0].raw if command.words else ""
        if not name or name in SHELL_BUILTINS:
            return True
        for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if not Path(directory).is_absolute():
                return False
            file = f"{directory}/{name}"
            if os.access(file, os.X_OK):
                return not self._is_in_workspace(file)
        return True

    def _is_in_workspace(self, file: str) -> bool:
        try:
            names = resolve_all_names(file, None, self._anchors.home)
        except PathResolutionError:
            return True
        return any(self._anchors.contains_all([name], self._working_directories) for name in names)

    def _has_no_side_effects(self, spec: ReadSpec, directories: tuple[Path, ...]) -> bool:
        cwd = self._facts.subject.cwd
        if cwd is None:
            return False
        # Elsewhere, a repository is not the one that the user has opened.
        if spec.uses_repository and any(_resolve(one) != _resolve(cwd) for one in directories):
            return False
        return has_no_side_effects(spec, cwd, self._anchors.home, os.environ)

    def _may_read(self, spec: ReadSpec, directories: tuple[Path, ...]) -> bool:
        named = [path for path in spec.paths if path not in _ALWAYS_READABLE]
        named += [_get_glob_directory(pattern) for pattern in spec.globs]
        paths = dict.fromkeys([*named, "."] if spec.reads_cwd else named)
        touches = [FileAccess(path, directories) for path in paths]
        files: list[FileNames] = list(resolve_accesses(touches, self._anchors.home))
        if len(files) < len(touches) * len(directories):
            return False
        matched = [self._expand_glob(pattern, directories) for pattern in spec.globs]
        for found in matched:
            if found is None:
                return False
            files += found
        if not all(map(self._is_readable, files)):
            return False
        return not spec.reads_unnamed_files or all(
            self._may_search(names[-1], spec) for names in files
        )

    def _expand_glob(self, pattern: str, directories: tuple[Path, ...]) -> list[FileNames] | None:
        """All that the pattern may become; None where that is too much, or not known."""
        every = [
            str(directory / name)
            for directory in directories
            for name in islice(
                glob.iglob(pattern, root_dir=directory, include_hidden=True),  # noqa: PTH207  (absolute ones too)
                MAX_FILES + 1,
            )
        ]
        if len(every) > MAX_FILES:
            return None
        try:
            return [resolve_all_names(path, None, self._anchors.home) for path in every]
        except PathResolutionError:
            return None

    def _is_readable(self, names: FileNames) -> bool:
        """Whether it lies inside, and no rule closes it."""
        if not self._anchors.contains_all(
            names, self._working_directories
        ) or self._protected_paths.is_private(names):
            return False
        return not any(
            rules.find_covering_any([names], self._anchors)
            for rules in self._deny_ask_rules.read_rules
        )

    def _may_search(self, root: Path, spec: ReadSpec) -> bool:
        """Whether nothing below is closed, and no link that is followed leads out."""
        if self._protected_paths.contains_private([root]):
            return False
        rules = self._deny_ask_rules.read_rules
        if not rules and not spec.follows_links:
            return True
        hidden = [
            HiddenPaths(one, self._anchors, self._protected_paths.is_private) for one in rules
        ]
        for count, (path, is_link) in enumerate(_walk(root)):
            if count >= MAX_FILES or any(hides(path) for hides in hidden):
                return False
            if is_link and spec.follows_links and not self._is_link_target_readable(path):
                return False
        return True

    def _is_link_target_readable(self, link: Path) -> bool:
        try:
            return self._is_readable(resolve_all_names(str(link), None, self._anchors.home))
        except PathResolutionError:
            return False


def _get_glob_directory(pattern: str) -> str:
    """Where the names are looked for that the pattern becomes."""
    fixed = re.split(r"[*?]", pattern, maxsplit=1)[0]
    directory, slash, _ = fixed.rpartition("/")
    return directory or slash or "."


def _resolve(path: Path) -> str:
    return os.path.realpath(path)


def _walk(root: Path) -> Iterator[tuple[Path, bool]]:
    """Every file and directory under `root`, and whether it is a link."""
    left = [root]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    path = Path(entry.path)
                    yield path, entry.is_symlink()
                    if entry.is_dir(follow_symlinks=False):
                        left.append(path)
        except OSError:
            continue
