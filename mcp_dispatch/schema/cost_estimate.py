"""Estimates the work of validating the arguments of one call, before it is done.

The estimate follows the validator: for each value it counts how often each subschema is applied,
without the short cuts that the validator may take. It moves through the arguments like an automaton
whose states are such tallies. States are built when they are first needed, so each item of a list
of a million items costs one lookup.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heappop, heappush

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.cost_bounds import BoundedSchema, Edge
from mcp_dispatch.schema.cost_graph import ChildSchemas

Tally = dict[int, int]


# The cost of an error relative to a check, and the length of text copied as fast as one value.
_ERROR_COST = 15
_CHARACTERS_PER_VALUE = 4096


class ValidationMode(Enum):
    """Whether the validator returns only a verdict or a list of all errors."""

    VERDICT = "verdict"
    ERRORS = "errors"


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """The estimated work; `matching_cost` is in characters times pattern length.

    The first `levels` levels of the arguments are counted; `is_complete` if these are all.
    """

    cost: int
    matching_cost: int
    levels: int
    is_complete: bool


@dataclass(slots=True)
class _State:
    """How often each subschema is applied to a value, and what that costs."""

    tally: Tally
    checks: int
    matching_cost: int
    name_matching_cost: int
    names: frozenset[str | int]
    transitions: dict[tuple[bool, str | int | None], "_State"]


class _Automaton:
    """Moves from the tally of a value to the tallies of the values inside it."""

    def __init__(
        self, bounded: BoundedSchema, pattern_costs: dict[str, int], memoized_edges: frozenset[Edge]
    ) -> None:
        self._bounded = bounded
        self._pattern_costs = pattern_costs
        self._memoized_edges = memoized_edges

    def start(self) -> _State:
        return self._build_state({0: 1})

    def follow(self, state: _State, inside_object: bool, name: str | int) -> _State:
        key = (inside_object, name if name in state.names else None)
        if key not in state.transitions:
            state.transitions[key] = self._build_state(self._apply_inside(state.tally, key))
        return state.transitions[key]

    def _build_state(self, seeds: Tally) -> _State:
        tally = self._apply_in_place(seeds)
        nodes = self._bounded.nodes
        return _State(
            tally,
            sum(nodes[index].weight * times for index, times in tally.items()),
            sum(self._sum_costs(nodes[index].patterns) * times for index, times in tally.items()),
            sum(
                self._sum_costs(nodes[index].name_patterns) * times
                for index, times in tally.items()
            ),
            frozenset(
                name
                for index in tally
                for children in (nodes[index].fields, nodes[index].elements)
                for name in children.named
            ),
            {},
        )

    def _sum_costs(self, patterns: Sequence[str]) -> int:
        return sum(self._pattern_costs[pattern] for pattern in patterns)

    def _apply_inside(self, tally: Tally, key: tuple[bool, str | int | None]) -> Tally:
        inside_object, name = key
        following: Tally = {}
        once: set[int] = set()
        for index, times in tally.items():
            node = self._bounded.nodes[index]
            for target in _select_targets(node.fields if inside_object else node.elements, name):
                self._add(following, once, (index, target), times)
        return following

    def _apply_in_place(self, seeds: Tally) -> Tally:
        ranks = self._bounded.ranks
        tally = dict(seeds)
        once: set[int] = set()
        queue = sorted((ranks[index], index) for index in tally)
        while queue:
            _, index = heappop(queue)
            for target in self._bounded.nodes[index].same_value:
                if target not in tally:
                    heappush(queue, (ranks[target], target))
                self._add(tally, once, (index, target), tally[index])
        return tally

    def _add(self, tally: Tally, once: set[int], edge: Edge, times: int) -> None:
        """Add applications of a subschema; the validator memoizes some, which count once per value."""
        target = edge[1]
        if edge not in self._memoized_edges:
            tally[target] = tally.get(target, 0) + times
        elif target not in once:
            once.add(target)
            tally[target] = tally.get(target, 0) + 1
        else:
            tally.setdefault(target, 0)


def _select_targets(children: ChildSchemas, name: str | int | None) -> tuple[int, ...]:
    if name is not None and name in children.named:
        return (children.named[name], *children.always)
    return (*children.others, *children.always)


def count_work(
    bounded: BoundedSchema,
    pattern_costs: dict[str, int],
    arguments: Json,
    mode: ValidationMode,
    limit: int,
) -> WorkEstimate:
    """Count level by level, and stop when the cost is over `limit`.

    A verdict costs one for each application of a subschema that is not memoized. A list of errors
    is built without memoization, and each error copies the value that it is about: every value
    counts once for every check of the values that contain it.
    """
    memoized_edges = bounded.memoized_edges if mode is ValidationMode.VERDICT else frozenset[Edge]()
    automaton = _Automaton(bounded, pattern_costs, memoized_edges)
    cost = matching = depth = 0
    waiting: deque[tuple[Json, int, int, _State]] = deque([(arguments, 0, 0, automaton.start())])
    while waiting and cost <= limit:
        value, depth, above, state = waiting.popleft()
        checks = above + state.checks
        cost += (
            state.checks
            if mode is ValidationMode.VERDICT
            else _compute_error_cost(value, state, checks)
        )
        if isinstance(value, str):
            matching += len(value) * state.matching_cost
        elif isinstance(value, dict):
            for name, inner in value.items():
                following = automaton.follow(state, True, name)
                matching += len(name) * (state.name_matching_cost + following.matching_cost)
                waiting.append((inner, depth + 1, checks, following))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                following = automaton.follow(state, False, index)
                waiting.append((inner, depth + 1, checks, following))
    is_complete = cost <= limit
    return WorkEstimate(cost, matching, depth + is_complete, is_complete)


def _compute_error_cost(value: Json, state: _State, checks: int) -> int:
    text = len(value) // _CHARACTERS_PER_VALUE if isinstance(value, str) else 0
    return _ERROR_COST * state.checks + checks * (1 + text)
