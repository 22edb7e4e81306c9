"""Many rules about tools: a call is tried only on those that name its tool or its server."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from mcp_dispatch.policy.rules.model import NamesLike, ServerNamed, Target, ToolNamed
from mcp_dispatch.policy.subject import Subject


class NameIndex:
    """Targets known by their position."""

    def __init__(self, targets: Mapping[int, Target]) -> None:
        self._targets = targets
        self._named: dict[str, list[int]] = {}
        self._servers: dict[str, list[int]] = {}
        self._always: list[int] = []
        for position, target in targets.items():
            self._file(position, target)

    def covering(self, subject: Subject, *, strictly: bool) -> Iterator[int]:
        """The targets that mean the tool. An allow is read strictly: by its rule name alone."""
        for position in self.candidates(subject):
            if self._targets[position].covers(subject, strictly=strictly):
                yield position

    def candidates(self, subject: Subject) -> Iterable[int]:
        names = (subject.rule_name, subject.exposed_name)
        found = [self._named.get(unicodedata.normalize("NFKC", name), ()) for name in names]
        servers = self._servers.get(subject.server, ()) if subject.server is not None else ()
        return dict.fromkeys([*found[0], *found[1], *servers, *self._always])

    def _file(self, position: int, target: Target) -> None:
        match target:
            case ToolNamed(name):
                key = unicodedata.normalize("NFKC", name)
                self._named.setdefault(key, []).append(position)
            case ServerNamed():
                # Its name in full also means a tool that is listed under that name.
                key = unicodedata.normalize("NFKC", target.written)
                self._named.setdefault(key, []).append(position)
                if not target.tools.literal:
                    self._servers.setdefault(target.server, []).append(position)
            case NamesLike():
                self._always.append(position)
