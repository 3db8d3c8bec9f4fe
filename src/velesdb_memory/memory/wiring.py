"""Building the graph of entities: hubs, what they are mentioned by, how they relate, what is known of them.

Everything here is taught by facts: each edge and attribute records which, so that forgetting a fact takes back exactly
what only it taught.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..errors import InvalidRelation
from ..ids import hub_id
from ..store.base import NOBODY, Attribute, Kind, Record, StoreTransaction
from ..text import canonical
from . import checks

ABOUT: Final = "about"  # fact -> hub
MENTIONS: Final = "mentions"  # hub -> fact
HUB_PREFIX: Final = "Entity: "


def has_name(name: str) -> bool:
    """Whether a text can name an entity: punctuation alone cannot."""
    return any(character.isalnum() for character in name)


def ensure_hub(tx: StoreTransaction, name: str) -> int:
    """The id of an entity's hub, made if it is not there."""
    key = canonical(name)
    number = hub_id(key)
    hub = Record(number, Kind.HUB, HUB_PREFIX + key, {})
    if tx.get(number) != hub:
        # refuses an id that something else holds
        tx.put(hub, None)
    return number


def bare_name(record: Record) -> str:
    """What a record is called: an entity's canonical name, or a fact's text."""
    return record.content.removeprefix(HUB_PREFIX) if record.kind is Kind.HUB else record.content


def wire_topics(tx: StoreTransaction, fact: int, names: Iterable[str], taught_by: int) -> None:
    """Link a fact with the entities it is about, both ways."""
    for name in dict.fromkeys(canonical(name) for name in names):
        if has_name(name):
            hub = hub_id(name)
            about = tx.add_edge(fact, hub, ABOUT, taught_by=taught_by)
            mentions = tx.add_edge(hub, fact, MENTIONS, taught_by=taught_by)
            if about or mentions:
                ensure_hub(tx, name)


def wire_relation(
    tx: StoreTransaction, subject: str, predicate: str, target: str, taught_by: int
) -> str | None:
    """Link two entities as stated; the reason when it cannot be done, and nothing is made then."""
    ends = canonical(subject), canonical(target)
    if not all(map(has_name, ends)):
        return "no_alphanumeric_name"
    if ends[0] == ends[1]:
        return "self_relation"
    try:
        label = checks.relation(predicate)
    except InvalidRelation:
        return "invalid_relation"
    # a refused edge must not leave hubs behind that nothing holds
    if tx.add_edge(hub_id(ends[0]), hub_id(ends[1]), label, taught_by=taught_by):
        for end in ends:
            ensure_hub(tx, end)
    return None


def teach(tx: StoreTransaction, entity: str, key: str, value: Any, taught_by: int) -> str | None:
    """Record an attribute of an entity; the reason when it cannot be done."""
    if not has_name(entity):
        return "no_alphanumeric_name"
    if checks.is_reserved(key):
        return "reserved_attribute"
    tx.teach(Attribute(ensure_hub(tx, entity), key, value, None if taught_by == NOBODY else taught_by))
    return None
