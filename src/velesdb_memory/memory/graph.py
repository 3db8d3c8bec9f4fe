"""Walking typed links: why."""

from __future__ import annotations

from typing import get_args

import msgspec

from ..errors import InvalidArgument
from ..limits import MAX_WHY_EDGES, MAX_WHY_HOPS, MAX_WHY_NODE_DEGREE, MAX_WHY_NODES
from ..model import Direction, Explanation, JsonObject, WhyEdge, WhyNode
from ..store.base import Edge, Record, StoreView
from . import checks
from .core import Core
from .switching import follows_switch


class Walk(msgspec.Struct):
    """What a walk met: records with their distance in the order of discovery, and the edges followed."""

    found: dict[int, tuple[Record, int]]
    edges: list[Edge]
    truncated: bool = False


def walk(view: StoreView, seed: Record, max_hops: int, direction: Direction = "out") -> Walk:
    """Breadth first from ``seed``, level by level, inside the budgets of limits.py.

    ``truncated`` is set when a budget, not the hop limit, cut the walk. Edges are read in the order they were made.
    """
    result = Walk({seed.id: (seed, 0)}, [])
    followed: set[int] = set()
    frontier = [seed.id]
    for hop in range(1, max_hops + 1):
        reached: list[int] = []
        for near in frontier:
            if len(result.found) >= MAX_WHY_NODES or len(result.edges) >= MAX_WHY_EDGES:
                result.truncated = True
                return result
            edges = _edges(view, near, direction)
            if len(edges) > MAX_WHY_NODE_DEGREE:
                result.truncated = True
                del edges[MAX_WHY_NODE_DEGREE:]
            fresh = view.get_many([far for far in (_far(edge, near) for edge in edges) if far not in result.found])
            for edge in edges:
                if edge.id in followed:
                    continue
                if len(result.found) >= MAX_WHY_NODES or len(result.edges) >= MAX_WHY_EDGES:
                    result.truncated = True
                    break
                far = _far(edge, near)
                if far not in result.found:
                    result.found[far] = (fresh[far], hop)
                    reached.append(far)
                followed.add(edge.id)
                result.edges.append(edge)
        frontier = reached
    return result


def _far(edge: Edge, near: int) -> int:
    return edge.target if edge.source == near else edge.source


def _edges(view: StoreView, near: int, direction: Direction) -> list[Edge]:
    # one more than may be followed, to know whether there are more
    window = MAX_WHY_NODE_DEGREE + 1
    edges = view.edges_from(near, window) if direction in ("out", "both") else []
    if direction in ("in", "both"):
        edges += view.edges_to(near, window)
    return edges


@follows_switch
def why(
    core: Core, decision: str, max_hops: int, filter: JsonObject | None, direction: Direction
) -> Explanation:
    """Explain the best match by what links reach from it; see MemoryService.why."""
    text = checks.query(decision, "decision")
    hops = min(checks.integer(max_hops, "max_hops"), MAX_WHY_HOPS)
    if direction not in get_args(Direction):
        raise InvalidArgument(f"direction is {direction!r}, not one of out, in, both", field="direction")
    if not text:
        return Explanation([], [])
    where = checks.exact_filter(filter)
    vector = core.query_vector(text)
    with core.store.view(core.clock.now()) as view:
        core.require_space(view)
        hits = view.nearest(vector, 1, where)
        if not hits:
            return Explanation([], [])
        seed = view.get_many([hits[0].id])[hits[0].id]
        result = walk(view, seed, hops, direction)
    nodes = [
        WhyNode(number, record.content, hop, score=None if hop else hits[0].score)
        for number, (record, hop) in result.found.items()
    ]
    return Explanation(
        nodes, [WhyEdge(edge.source, edge.target, edge.relation) for edge in result.edges], result.truncated
    )
