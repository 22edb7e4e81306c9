"""How much work a schema can make of one call's arguments, counted before it is done.

The count follows the validator: it knows for each value how often each subschema is applied to it,
without any short cut the validator may find. It moves through the arguments like an automaton whose
states are such tallies, made when first needed, so a list of a million items costs one look each.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.cost_bounds import Bounded, Edge
from mcp_dispatch.schema.cost_graph import Inside

Tally = dict[int, int]


# What an error costs beside a plain check, and how much text is copied as fast as one value.
_ERROR_COST = 15
_CHARACTERS_PER_VALUE = 4096


class Question(Enum):
    """What the validator is asked: valid or not, or every error."""

    VERDICT = "verdict"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is to do, and how much text to match, in characters times pattern length.

    `levels` of the arguments were counted in full; `whole` tells whether these are all.
    """

    cost: int
    matching: int
    levels: int
    whole: bool


@dataclass(slots=True)
class _State:
    tally: Tally
    checks: int
    matching: int
    name_matching: int
    names: frozenset[str | int]
    following: dict[tuple[bool, str | int | None], "_State"]


class _Automaton:
    def __init__(
        self, bounded: Bounded, costs: dict[str, int], remembered: frozenset[Edge]
    ) -> None:
        self._bounded = bounded
        self._costs = costs
        self._remembered = remembered

    def start(self) -> _State:
        return self._state({0: 1})

    def follow(self, state: _State, inside_object: bool, name: str | int) -> _State:
        key = (inside_object, name if name in state.names else None)
        if key not in state.following:
            state.following[key] = self._state(self._inside(state.tally, key))
        return state.following[key]

    def _state(self, seeds: Tally) -> _State:
        tally = self._in_place(seeds)
        nodes = self._bounded.nodes
        return _State(
            tally,
            sum(nodes[index].weight * times for index, times in tally.items()),
            sum(self._cost(nodes[index].patterns) * times for index, times in tally.items()),
            sum(self._cost(nodes[index].name_patterns) * times for index, times in tally.items()),
            frozenset(
                name
                for index in tally
                for inside in (nodes[index].fields, nodes[index].elements)
                for name in inside.named
            ),
            {},
        )

    def _cost(self, patterns: Sequence[str]) -> int:
        return sum(self._costs[pattern] for pattern in patterns)

    def _inside(self, tally: Tally, key: tuple[bool, str | int | None]) -> Tally:
        inside_object, name = key
        following: Tally = {}
        once: set[int] = set()
        for index, times in tally.items():
            node = self._bounded.nodes[index]
            for target in _applied(node.fields if inside_object else node.elements, name):
                self._add(following, once, (index, target), times)
        return following

    def _in_place(self, seeds: Tally) -> Tally:
        ranks = self._bounded.ranks
        tally = dict(seeds)
        once: set[int] = set()
        queue = sorted((ranks[index], index) for index in tally)
        while queue:
            _, index = heappop(queue)
            for target in self._bounded.nodes[index].in_place:
                if target not in tally:
                    heappush(queue, (ranks[target], target))
                self._add(tally, once, (index, target), tally[index])
        return tally

    def _add(self, tally: Tally, once: set[int], edge: Edge, times: int) -> None:
        """The validator remembers its answers along some edges: they count once for a value."""
        target = edge[1]
        if edge not in self._remembered:
            tally[target] = tally.get(target, 0) + times
        elif target not in once:
            once.add(target)
            tally[target] = tally.get(target, 0) + 1
        else:
            tally.setdefault(target, 0)


def _applied(inside: Inside, name: str | int | None) -> tuple[int, ...]:
    if name is not None and name in inside.named:
        return (inside.named[name], *inside.every)
    return (*inside.rest, *inside.every)


def count_work(
    bounded: Bounded, costs: dict[str, int], arguments: Json, question: Question, limit: int
) -> Work:
    """Counts level by level, and stops once the cost is over `limit`.

    A verdict costs one for each application of a subschema, and what the validator remembers is
    free. For a list of errors it remembers nothing, and each error takes a copy of the value it is
    about: every value counts once for every check of what it is in. `costs` are of patterns.
    """
    remembered = bounded.remembered if question is Question.VERDICT else frozenset[Edge]()
    automaton = _Automaton(bounded, costs, remembered)
    cost = matching = depth = 0
    waiting: deque[tuple[Json, int, int, _State]] = deque([(arguments, 0, 0, automaton.start())])
    while waiting and cost <= limit:
        value, depth, above, state = waiting.popleft()
        checks = above + state.checks
        cost += state.checks if question is Question.VERDICT else _errors_cost(value, state, checks)
        if isinstance(value, str):
            matching += len(value) * state.matching
        elif isinstance(value, dict):
            for name, inner in value.items():
                following = automaton.follow(state, True, name)
                matching += len(name) * (state.name_matching + following.matching)
                waiting.append((inner, depth + 1, checks, following))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                following = automaton.follow(state, False, index)
                waiting.append((inner, depth + 1, checks, following))
    whole = cost <= limit
    return Work(cost, matching, depth + whole, whole)


def _errors_cost(value: Json, state: _State, checks: int) -> int:
    text = len(value) // _CHARACTERS_PER_VALUE if isinstance(value, str) else 0
    return _ERROR_COST * state.checks + checks * (1 + text)
