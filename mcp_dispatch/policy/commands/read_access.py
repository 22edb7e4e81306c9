"""Whether the files that a read-only command reads may be shown without asking."""

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
"""The maximum number of files that are checked to find out what a search reads."""

_ALWAYS_READABLE = frozenset({"/dev/null", "/dev/stdin"})


class ReadAccess:
    """Checks each command of one call; results are cached by position."""

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
        """Return whether every command only reads, and only permitted files.

        The files that redirects write are checked elsewhere.
        """
        command = self._facts.parsed_command
        if (
            command is None
            or not isinstance(command.script, PlainScript)
            or command.script.form is not Form.FLAT
        ):
            return False
        return all(map(self.can_read, range(len(command.script.commands))))

    def can_read(self, position: int) -> bool:
        """Return whether the command at that position only reads, and only permitted files."""
        if position not in self._results:
            self._results[position] = self._check_command(position)
        return self._results[position]

    def _check_command(self, position: int) -> bool:
        command, accesses = self._facts.parsed_command, self._facts.shell_access
        if command is None or accesses is None or not isinstance(command.script, PlainScript):
            return False
        spec, directories = command.read_specs[position], accesses.command_directories[position]
        if spec is None or not directories:
            return False
        return (
            self._is_system_program(command.script.commands[position])
            and self._has_no_side_effects(spec, directories)
            and self._may_read(spec, directories)
        )

    def _is_system_program(self, command: SimpleCommand) -> bool:
        """Return whether the shell finds the program outside the workspace."""
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
        # In another directory the repository is not the one that the user has opened.
        if spec.uses_repository and any(
            _resolve(directory) != _resolve(cwd) for directory in directories
        ):
            return False
        return has_no_side_effects(spec, cwd, self._anchors.home, os.environ)

    def _may_read(self, spec: ReadSpec, directories: tuple[Path, ...]) -> bool:
        named_paths = [path for path in spec.paths if path not in _ALWAYS_READABLE]
        named_paths += [_get_glob_directory(pattern) for pattern in spec.globs]
        paths = dict.fromkeys([*named_paths, "."] if spec.reads_cwd else named_paths)
        touches = [FileAccess(path, directories) for path in paths]
        files: list[FileNames] = list(resolve_accesses(touches, self._anchors.home))
        if len(files) < len(touches) * len(directories):
            return False
        expanded = [self._expand_glob(pattern, directories) for pattern in spec.globs]
        for found in expanded:
            if found is None:
                return False
            files += found
        if not all(map(self._is_readable, files)):
            return False
        return not spec.reads_unnamed_files or all(
            self._may_search(names[-1], spec) for names in files
        )

    def _expand_glob(self, pattern: str, directories: tuple[Path, ...]) -> list[FileNames] | None:
        """Return the files that match the pattern, or None if they are unknown or too many."""
        paths = [
            str(directory / name)
            for directory in directories
            for name in islice(
                glob.iglob(pattern, root_dir=directory, include_hidden=True),  # noqa: PTH207  (absolute ones too)
                MAX_FILES + 1,
            )
        ]
        if len(paths) > MAX_FILES:
            return None
        try:
            return [resolve_all_names(path, None, self._anchors.home) for path in paths]
        except PathResolutionError:
            return None

    def _is_readable(self, names: FileNames) -> bool:
        """Return whether the file lies in a working directory and no rule denies or asks."""
        if not self._anchors.contains_all(
            names, self._working_directories
        ) or self._protected_paths.is_private(names):
            return False
        return not any(
            rules.find_covering_any([names], self._anchors)
            for rules in self._deny_ask_rules.read_rules
        )

    def _may_search(self, root: Path, spec: ReadSpec) -> bool:
        """Return whether all files below `root` and targets of followed links are readable."""
        if self._protected_paths.contains_private([root]):
            return False
        rules = self._deny_ask_rules.read_rules
        if not rules and not spec.follows_links:
            return True
        filters = [
            HiddenPaths(path_rules, self._anchors, self._protected_paths.is_private)
            for path_rules in rules
        ]
        for count, (path, is_link) in enumerate(_walk(root)):
            if count >= MAX_FILES or any(is_hidden(path) for is_hidden in filters):
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
    """Return the directory in which the pattern is expanded."""
    fixed = re.split(r"[*?]", pattern, maxsplit=1)[0]
    directory, slash, _ = fixed.rpartition("/")
    return directory or slash or "."


def _resolve(path: Path) -> str:
    return os.path.realpath(path)


def _walk(root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield every file and directory under `root`, and whether it is a link."""
    stack = [root]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    path = Path(entry.path)
                    yield path, entry.is_symlink()
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(path)
        except OSError:
            continue
