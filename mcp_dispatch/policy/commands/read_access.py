"""Whether what a read-only command looks at may be seen without a question."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from mcp_dispatch.fs.resolve import Places, Unresolvable, names_of
from mcp_dispatch.policy.commands.file_access import Touch
from mcp_dispatch.policy.facts import Evidence, Names, resolved
from mcp_dispatch.policy.paths.hidden import Hiding
from mcp_dispatch.policy.paths.protected import ProtectedPaths
from mcp_dispatch.policy.rules.deny_ask import ClosedRules
from mcp_dispatch.shell.analyze import only_looks
from mcp_dispatch.shell.arguments import Look
from mcp_dispatch.shell.ast import Form, Plain, SimpleCommand
from mcp_dispatch.shell.safe_programs import BUILTINS

MOST = 5_000
"""Files that are looked through to find out what a search would read."""

_ALWAYS = frozenset({"/dev/null", "/dev/stdin"})


class Looking:
    """Judges the commands of one call, one by one."""

    def __init__(
        self,
        evidence: Evidence,
        places: Places,
        working: Sequence[Path],
        closed: ClosedRules,
        protected: ProtectedPaths,
    ) -> None:
        self._evidence = evidence
        self._places = places
        self._working = working
        self._closed = closed
        self._protected = protected
        self._judged: dict[int, bool] = {}

    def only(self) -> bool:
        """Whether every command only looks, and at nothing but what may be seen.

        The files that redirects write are judged elsewhere.
        """
        read = self._evidence.reading
        if read is None or not isinstance(read.plain, Plain) or read.plain.form is not Form.FLAT:
            return False
        return all(map(self.at, range(len(read.plain.commands))))

    def at(self, position: int) -> bool:
        """Of the command at that position of the text."""
        if position not in self._judged:
            self._judged[position] = self._may(position)
        return self._judged[position]

    def _may(self, position: int) -> bool:
        read, shell = self._evidence.reading, self._evidence.shell
        if read is None or shell is None or not isinstance(read.plain, Plain):
            return False
        look, directories = read.looks[position], shell.places[position]
        if look is None or not directories:
            return False
        return (
            self._is_itself(read.plain.commands[position])
            and self._does_no_more(look, directories)
            and self._may_see(look, directories)
        )

    def _is_itself(self, command: SimpleCommand) -> bool:
        """Whether no file of the workspace answers to the program's name."""
        name = command.words[0].raw if command.words else ""
        if not name or name in BUILTINS:
            return True
        for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
            if not Path(directory).is_absolute():
                return False
            file = f"{directory}/{name}"
            if os.access(file, os.X_OK):
                return not self._touches_work(file)
        return True

    def _touches_work(self, file: str) -> bool:
        try:
            names = names_of(file, None, self._places.home)
        except Unresolvable:
            return True
        return any(self._places.all_inside([name], self._working) for name in names)

    def _does_no_more(self, look: Look, directories: tuple[Path, ...]) -> bool:
        cwd = self._evidence.subject.cwd
        if cwd is None:
            return False
        # Elsewhere, a repository is not the one that the user has opened.
        if look.repository and any(_real(one) != _real(cwd) for one in directories):
            return False
        return only_looks(look, cwd, self._places.home, os.environ)

    def _may_see(self, look: Look, directories: tuple[Path, ...]) -> bool:
        named = [path for path in look.paths if path not in _ALWAYS]
        named += [_directory_of(pattern) for pattern in look.globs]
        paths = dict.fromkeys([*named, "."] if look.here else named)
        touches = [Touch(path, directories) for path in paths]
        files: list[Names] = list(resolved(touches, self._places.home))
        if len(files) < len(touches) * len(directories):
            return False
        matched = [self._matched(pattern, directories) for pattern in look.globs]
        for found in matched:
            if found is None:
                return False
            files += found
        if not all(map(self._open, files)):
            return False
        return not look.sweeps or all(self._may_sweep(names[-1], look) for names in files)

    def _matched(self, pattern: str, directories: tuple[Path, ...]) -> list[Names] | None:
        """All that the pattern may become; None where that is too much, or not known."""
        every = [
            str(directory / name)
            for directory in directories
            for name in islice(
                glob.iglob(pattern, root_dir=directory, include_hidden=True),  # noqa: PTH207  (absolute ones too)
                MOST + 1,
            )
        ]
        if len(every) > MOST:
            return None
        try:
            return [names_of(path, None, self._places.home) for path in every]
        except Unresolvable:
            return None

    def _open(self, names: Names) -> bool:
        """Whether it lies inside, and no rule closes it."""
        if not self._places.all_inside(names, self._working) or self._protected.private(names):
            return False
        return not any(rules.covering_any([names], self._places) for rules in self._closed.reads)

    def _may_sweep(self, root: Path, look: Look) -> bool:
        """Whether nothing below is closed, and no link that is followed leads out."""
        if self._protected.holds_own([root]):
            return False
        rules = self._closed.reads
        if not rules and not look.follows:
            return True
        hidden = [Hiding(one, self._places, self._protected.private) for one in rules]
        for count, (path, is_link) in enumerate(_below(root)):
            if count >= MOST or any(hides(path) for hides in hidden):
                return False
            if is_link and look.follows and not self._leads_inside(path):
                return False
        return True

    def _leads_inside(self, link: Path) -> bool:
        try:
            return self._open(names_of(str(link), None, self._places.home))
        except Unresolvable:
            return False


def _directory_of(pattern: str) -> str:
    """Where the names are looked for that the pattern becomes."""
    fixed = re.split(r"[*?]", pattern, maxsplit=1)[0]
    directory, slash, _ = fixed.rpartition("/")
    return directory or slash or "."


def _real(path: Path) -> str:
    return os.path.realpath(path)


def _below(root: Path) -> Iterator[tuple[Path, bool]]:
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
