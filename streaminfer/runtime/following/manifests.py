"""Manifests of a shard: the record and whose it is, and its statistics.

Those are of the whole posterior, or of words what all rows have in common.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streaminfer.bus.protocol import Headers, Record
from streaminfer.models.model import DomainError
from streaminfer.runtime.intact import value_of
from streaminfer.sampling import flat
from streaminfer.spec import Spec, meaning
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.drift.reaction import rule_of
from streaminfer.variational.snapshot import Snapshot, together
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue
from streaminfer.wire.snapshots import Assembler, OtherSpec

HEADER: Final = "spec"
"""The header of a manifest that says what its spec means."""
MOST_DIFFERENCES: Final = 5


def headers(spec: Spec) -> Headers:
    """Those of a manifest: a reader with another spec can say what is different."""
    text = meaning.text_of(spec.meaning)
    return () if text is None else ((HEADER, text),)


def assembler(spec: Spec, schemas: Schemas = DECLARED) -> Assembler:
    """What puts the snapshots of a spec's shard together."""
    kind, rule = kind_of(spec), rule_of(spec.inference, spec.drift)
    draw_size = None if spec.sampling is None else flat.size(spec.target.shapes)
    most_clocks = 0 if rule is None or kind.has_rows or draw_size is not None else rule.most_clocks
    return Assembler(spec.fingerprint, kind.statistics_size(spec), schemas, most_clocks, draw_size)


def check_readable(spec: Spec, records: Iterable[bytes], schemas: Schemas = DECLARED) -> None:
    """Raises WireError if no reader could restore the snapshot that these records are.

    The fold has made sure that its statistics give a posterior: to compute it again would take as long as a snapshot
    does.
    """
    reading = assembler(spec, schemas)
    if [reading.add(record) for record in records][-1] is None:
        raise BadValue("the manifest does not complete its chunks")


def assembled(spec: Spec, assembler: Assembler, record: Record) -> Snapshot | None:
    """The snapshot that a record completes; raises OtherSpec that says what is different, as far as it is known."""
    try:
        return assembler.add(value_of(record))
    except OtherSpec as error:
        raise error.explained(_why(spec, error.found, dict(record.headers).get(HEADER))) from error


def _why(spec: Spec, found: str, text: bytes | None) -> str:
    remedy = meaning.remedy(spec.meaning, found)
    if remedy is not None:
        return f"{remedy}, or "
    there = None if text is None else meaning.read(text)
    changed = [] if there is None else meaning.differences(there, spec.meaning)
    more = f", and {len(changed) - MOST_DIFFERENCES} more" if len(changed) > MOST_DIFFERENCES else ""
    return f"{'; '.join(changed[:MOST_DIFFERENCES])}{more}. To start over, " if changed else ""


def check_snapshot(spec: Spec, snapshot: Snapshot) -> None:
    """Raises DomainError if a snapshot gives no posterior, or is of a pass that the spec does not have."""
    if snapshot.frontier.epoch >= spec.inference.n_epochs:
        raise DomainError(f"epoch {snapshot.frontier.epoch} of {spec.inference.n_epochs}")
    kind_of(spec).check(spec, snapshot)


def whole(spec: Spec, shards: list[Snapshot]) -> Snapshot:
    """All shards as one."""
    return together(shards, shared=kind_of(spec).together)
