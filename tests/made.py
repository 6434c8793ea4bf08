"""Increments and snapshots from the fields of their parts; a field goes to the part that has it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from streaminfer.variational.counts import Counts, Totals
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.held import Held
from streaminfer.variational.increment import Change, Increment, Provenance
from streaminfer.variational.snapshot import Snapshot

T = TypeVar("T", Increment, Snapshot)


def new_increment(**changes: Any) -> Increment:
    """That of nothing, with some fields changed."""
    return changed(Increment(Provenance("f", "w", "t", 0, 0, 1), Counts(), Change(np.empty(0))), **changes)


def new_snapshot(**changes: Any) -> Snapshot:
    """That of nothing, with some fields changed."""
    return changed(Snapshot("f", 0, Held(np.empty(0)), Frontier(), Totals()), **changes)


def changed(value: T, **changes: Any) -> T:
    """The same with other fields of its parts."""
    own: dict[str, Any] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        if field.name in changes:
            own[field.name] = changes.pop(field.name)
        elif isinstance(part, Provenance | Counts | Change | Frontier | Held):
            inner = {each.name: changes.pop(each.name) for each in fields(part) if each.name in changes}
            own |= {field.name: replace(part, **inner)} if inner else {}
    assert not changes, f"no part has {changes}"
    return replace(value, **own)


def flat(value: Increment | Snapshot) -> dict[str, Any]:
    """The fields of all parts by name, with arrays as lists."""
    found: dict[str, Any] = {}
    for field in fields(value):
        part = getattr(value, field.name)
        is_part = isinstance(part, Provenance | Counts | Change | Frontier | Held)
        found |= {each.name: getattr(part, each.name) for each in fields(part)} if is_part else {field.name: part}
    return {name: each.tolist() if isinstance(each, np.ndarray) else each for name, each in found.items()}
