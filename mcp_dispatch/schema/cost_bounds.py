"""Limits the size of a schema before anything compiles it.

A schema of two kilobytes can keep a validator busy for hours: with references that double, nested
`unevaluatedProperties`, or patterns with nested counts. This module counts on the schema as a
graph, without expanding it:

* depth and number of JSON values, as written;
* size with references expanded. A reference back to a schema that is still being applied counts
  once: the validator memoizes the (schema, value) pairs that it has seen;
* references that lead back to the same value (`{"$ref": "#"}`): they have no meaning, and our
  validator accepts every value for them, so they are refused;
* the length of all patterns, with counted repetitions written out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mcp_dispatch.model.json import Json
from mcp_dispatch.schema.cost_graph import SchemaNode, build_graph
from mcp_dispatch.schema.errors import SchemaUnusable
from mcp_dispatch.schema.refs import read_document

_UNICODE_CLASS_COST = 40


def estimate_pattern_cost(pattern: str) -> int:
    """Return the length of the pattern with every counted repetition written out.

    A linear-time engine needs time proportional to this times the length of the text. The estimate
    may be too high for an unusual pattern, but never much too low.
    """
    totals = [0]
    last = 0
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "(":
            totals.append(0)
            last, position = 0, position + 1
        elif character == ")" and len(totals) > 1:
            last, position = totals.pop(), position + 1
            totals[-1] += last
        elif character == "{" and (repeat := _parse_repetition(pattern, position)):
            times, position = repeat
            totals[-1] += last * (times - 1)
            last *= times
        else:
            last, position = _measure_atom(pattern, position)
            totals[-1] += last
    return max(1, sum(totals))


def _parse_repetition(pattern: str, start: int) -> tuple[int, int] | None:
    """Return the largest count in `{3}`, `{3,}` or `{3,5}` at `start`, and the position after it."""
    end = pattern.find("}", start, start + 24)
    parts = pattern[start + 1 : end].split(",") if end > 0 else []
    numbers = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if not numbers or len(parts) > 2:
        return None
    return max(1, *numbers) + (parts[-1] == ""), end + 1


def _measure_atom(pattern: str, start: int) -> tuple[int, int]:
    """Return the cost of a character, escape or class, and the position after it."""
    if pattern[start] == "[":
        return _measure_character_class(pattern, start)
    if pattern[start] != "\\":
        return 1, start + 1
    wide = pattern[start + 1 : start + 2] in ("p", "P")
    if wide and pattern[start + 2 : start + 3] == "{":
        end = pattern.find("}", start)
        return _UNICODE_CLASS_COST, (end if end > 0 else len(pattern)) + 1
    return _UNICODE_CLASS_COST if wide else 1, start + 2


def _measure_character_class(pattern: str, start: int) -> tuple[int, int]:
    cost, position = 1, start + 1
    while position < len(pattern) and pattern[position] != "]":
        if pattern[position] == "\\":
            wide = pattern[position + 1 : position + 2] in ("p", "P")
            cost += _UNICODE_CLASS_COST if wide else 0
            position += 1
        position += 1
    return cost, position + 1


EXPANDED_LIMIT = 200_000
PATTERN_LIMIT = 20_000

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class BoundedSchema:
    """A schema within the limits, with the data for later estimates of work.

    `memoized_edges` lead back to a schema that is still being applied. `ranks` order the nodes so
    that edges to schemas for the same value lead from lower to higher ranks.
    """

    nodes: tuple[SchemaNode, ...]
    ranks: tuple[int, ...]
    memoized_edges: frozenset[Edge]
    expanded_size: int
    pattern_costs: dict[str, int]


def bound_schema(schema: Json) -> BoundedSchema:
    """Check `schema` against the limits; raise `SchemaUnusable` with the limit that it breaks."""
    if not isinstance(schema, dict | bool):
        raise SchemaUnusable("is neither an object nor a boolean")
    nodes = build_graph(read_document(schema))
    costs = _estimate_pattern_costs(nodes)
    ranks = _rank_nodes(nodes)
    order, memoized_edges = _walk_depth_first(len(nodes), lambda index: nodes[index].edges)
    expanded = _count_expanded(nodes, order, memoized_edges)
    return BoundedSchema(nodes, ranks, memoized_edges, expanded, costs)


def _estimate_pattern_costs(nodes: Sequence[SchemaNode]) -> dict[str, int]:
    patterns = {one for node in nodes for one in (*node.patterns, *node.name_patterns)}
    costs = {pattern: estimate_pattern_cost(pattern) for pattern in patterns}
    total = sum(costs.values())
    if total > PATTERN_LIMIT:
        raise SchemaUnusable(
            f"has patterns of {total} characters, repetitions written out; "
            f"at most {PATTERN_LIMIT} are accepted"
        )
    return costs


def _rank_nodes(nodes: Sequence[SchemaNode]) -> tuple[int, ...]:
    order, back = _walk_depth_first(len(nodes), lambda index: nodes[index].same_value)
    if back:
        raise SchemaUnusable("has a reference that leads back to itself for the same value")
    ranks = [0] * len(nodes)
    for rank, index in enumerate(reversed(order)):
        ranks[index] = rank
    return tuple(ranks)


def _count_expanded(
    nodes: Sequence[SchemaNode], order: Sequence[int], memoized_edges: frozenset[Edge]
) -> int:
    sizes = [0] * len(nodes)
    for index in order:
        edges = ((index, target) for target in nodes[index].edges)
        sizes[index] = nodes[index].weight + sum(
            1 if edge in memoized_edges else sizes[edge[1]] for edge in edges
        )
    if sizes[0] > EXPANDED_LIMIT:
        raise SchemaUnusable(
            f"holds {_format_count(sizes[0])} subschemas with its references expanded; "
            f"at most {EXPANDED_LIMIT} are accepted"
        )
    return sizes[0]


def _format_count(count: int) -> str:
    return str(count) if count < 10**9 else "more than a billion"


def _walk_depth_first(
    count: int, list_edges: Callable[[int], Sequence[int]]
) -> tuple[list[int], frozenset[Edge]]:
    """Return the nodes in postorder, and the edges that lead back to an unfinished node."""
    finished: list[int] = []
    back: set[Edge] = set()
    state = bytearray(count)
    for start in range(count):
        stack = [] if state[start] else [(start, iter(list_edges(start)))]
        while stack:
            index, remaining = stack[-1]
            state[index] = 1
            target = next(remaining, None)
            if target is None:
                state[index] = 2
                finished.append(index)
                stack.pop()
            elif state[target] == 1:
                back.add((index, target))
            elif not state[target]:
                stack.append((target, iter(list_edges(target))))
    return finished, frozenset(back)
