"""What the graph knows about one named entity."""

from __future__ import annotations

from ..ids import hub_id
from ..limits import MAX_ENTITY_RELATIONS, MAX_ENTITY_SCAN_EDGES
from ..model import EntityProfile, EntityRelation
from ..store.base import Edge, Kind, StoreView
from ..text import canonical
from . import checks
from .core import Core
from .wiring import ABOUT, MENTIONS, bare_name


def entity(core: Core, name: str) -> EntityProfile:
    """Attributes and typed edges of an entity; see MemoryService.entity."""
    key = canonical(checks.query(name, "name"))
    number = hub_id(key)
    with core.store.view(core.clock.now()) as view:
        hub = view.get(number) if key else None
        if hub is None or hub.kind is not Kind.HUB:
            return EntityProfile(False, 0, "0", key, {}, [], [], False, False)
        attributes = {attribute.key: attribute.value for attribute in view.attributes(number)}
        out, out_cut = _typed(view, number, incoming=False)
        into, into_cut = _typed(view, number, incoming=True)
        names = view.get_many([*(edge.target for edge in out), *(edge.source for edge in into)])
    called = {memory_id: bare_name(record) for memory_id, record in names.items()}
    return EntityProfile(
        True,
        number,
        str(number),
        key,
        dict(sorted(attributes.items())),
        [EntityRelation(edge.relation, edge.target, str(edge.target), called[edge.target]) for edge in out],
        [
            EntityRelation(edge.relation, edge.source, str(edge.source), called[edge.source], called[edge.source])
            for edge in into
        ],
        out_cut,
        into_cut,
    )


def _typed(view: StoreView, hub: int, *, incoming: bool) -> tuple[list[Edge], bool]:
    return view.typed_edges(hub, incoming, MAX_ENTITY_SCAN_EDGES, MAX_ENTITY_RELATIONS, (ABOUT, MENTIONS))
