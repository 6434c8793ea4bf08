"""Writes the manifests of a shard, and nothing that could not be restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from streaminfer.bus.protocol import Bus, Output
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.following import manifests
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.tables.table import Described
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import snapshots
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError


class ManifestWriter:
    """Of one shard."""

    def __init__(self, spec: Spec, bus: Bus, shard: int, schemas: Schemas = DECLARED) -> None:
        self._spec, self._bus, self._shard, self._schemas = spec, bus, shard, schemas
        self._topic, self._headers = names.topic(spec, "posterior"), manifests.headers(spec)

    def outputs(self, snapshot: Snapshot, said: Described) -> list[Output]:
        """The records of a snapshot, its manifest last."""
        spec = self._spec
        about = snapshots.About(spec.name, said.kind, said.family, spec.inference.method, said.exactness)
        records = snapshots.encode(snapshot, said.natural, about, self._bus.max_record_bytes, self._schemas)
        with self.readable(snapshot):
            manifests.check_readable(spec, [data for _, data in records], self._schemas)
        outputs = [Output(self._topic, data, key, self._shard) for key, data in records]
        return [*outputs[:-1], replace(outputs[-1], headers=self._headers)]

    @contextmanager
    def readable(self, snapshot: Snapshot) -> Iterator[None]:
        """Around the reading of what is to be written: what no master could restore is never committed."""
        try:
            yield
        except (WireError, DomainError) as error:
            raise Fatal(
                f"{self._topic}: version {snapshot.version} is not written: no master could restore it: {error}. The "
                f"posterior on the bus stays at version {snapshot.version - 1}. This is a fault of streaminfer or of "
                "your own model; please report it with the spec."
            ) from error
