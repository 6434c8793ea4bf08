"""The start for a reader that needs no rows: the newest manifest, however many rows there are before it."""

from __future__ import annotations

from typing import Final

from streaminfer.bus.protocol import Bus, Partition, Record, Unreadable
from streaminfer.runtime.following import manifests
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.key_records import Versions
from streaminfer.wire.snapshots import MANIFEST, OtherSpec

LARGEST: Final = 1 << 63


def newest_manifest(spec: Spec, bus: Bus, partition: Partition, schemas: Schemas) -> int:
    """Its position, which is the last of its commit; the log's start if there are no rows, or no manifest is found."""
    start, end = (each(partition.topic)[partition.index] for each in (bus.starts, bus.ends))
    back = 16
    while kind_of(spec).has_rows and end - back > start:
        found = _newest(spec, bus, partition, range(end - back, end), schemas)
        if found is not None:
            return found
        back *= 64
    return start


def _newest(spec: Spec, bus: Bus, partition: Partition, positions: range, schemas: Schemas) -> int | None:
    """The offset of the newest manifest at some positions; None if one further back must be newer."""
    found, newest = None, 0
    rows = Versions(kind_of(spec).row_size(spec), schemas)
    with bus.reader({partition: positions.start}) as reader:
        while reader.position(partition) < positions.stop:
            for record in (each for part in reader.poll(1.0).slices for each in part.records):
                version = _version(spec, rows, record, schemas)
                if record.key == MANIFEST and version >= max(1, newest):
                    found = record.offset
                elif version > newest:
                    found = None
                newest = max(newest, version)
    return found


def _version(spec: Spec, rows: Versions, record: Record, schemas: Schemas) -> int:
    """That of a manifest or a row by itself; 0 of anything else."""
    if isinstance(record, Unreadable):
        return 0
    if record.key != MANIFEST:
        return rows.of(record.key, record.value)
    try:
        found = manifests.assembler(spec, schemas).add(record.value)
    except WireError:
        return 0
    except OtherSpec:
        return LARGEST  # its reader says so
    return 0 if found is None else found.version
