"""Keeps the panes of a window on the bus: written with the snapshot that contains them, restored with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streaminfer.bus.protocol import Bus, Output, Partition
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.variational.forgetting import total
from streaminfer.variational.increment import Panes
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.windows import MOST_PANES, LastEvents, LastSeconds
from streaminfer.wire import panes
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.panes import Place, Shelf

MOST_CLOCKS: Final = 4096


class PaneStore:
    """The panes of one shard."""

    def __init__(self, spec: Spec, bus: Bus, shard: int, rule: LastEvents | LastSeconds, schemas: Schemas) -> None:
        self._spec, self._bus, self._rule, self._schemas = spec, bus, rule, schemas
        self.partition = Partition(names.topic(spec, panes.TOPIC), shard)

    def restored(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it was read, with the panes that belong to it; Fatal where those on the bus do not."""
        model = self._spec.model
        try:
            stored = self._read().panes(snapshot.version)
            for found in stored.values():
                for pane in found.values():
                    model.posterior(pane.statistics)
            clocks = self._rule.restored(model, snapshot, stored)
        except (WireError, DomainError) as error:
            raise self._misfit(snapshot, str(error)) from error
        full = replace(snapshot, clocks=clocks, statistics=total(model, clocks))
        if full.n_effective != snapshot.n_effective:
            counts = f"they have {full.n_effective:,.15g} events and the snapshot says {snapshot.n_effective:,.15g}"
            raise self._misfit(snapshot, counts)
        return full

    def summary(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot as it is published, without panes."""
        return self._rule.summary(snapshot)

    def changes(self, old: Snapshot, new: Snapshot) -> list[Output]:
        """What must be written so that the panes on the bus, which are those of `old`, are those of `new`."""
        outputs: list[Output] = []
        for index, clock in new.clocks.items():
            if clock is not (before := old.clocks.get(index)):
                there = before.window.panes if before is not None and before.window is not None else {}
                here = clock.window.panes if clock.window is not None else {}
                outputs += self._dropped(index, there, here) + self._changed(index, there, here, new.version)
        return outputs

    def _changed(self, clock: int, there: Panes, here: Panes, version: int) -> list[Output]:
        most = self._bus.max_record_bytes
        records = [
            record
            for index, pane in here.items()
            if pane is not there.get(index)
            for record in panes.encode(Place(clock, index), pane, self._spec.fingerprint, version, most, self._schemas)
        ]
        return [Output(self.partition.topic, data, key, self.partition.index) for key, data in records]

    def _dropped(self, clock: int, there: Panes, here: Panes) -> list[Output]:
        places = [Place(clock, index) for index in there if index not in here]
        size, most = self._spec.model.size, self._bus.max_record_bytes
        keys = [key for place in places for key in panes.keys(place, size, most)]
        return [Output(self.partition.topic, None, key, self.partition.index) for key in keys]

    def _read(self) -> Shelf:
        """All of the topic, as it is now: nobody else can write to it any more."""
        size = self._spec.model.size
        # Within a commit there may be new panes before the old ones are gone: hence twice.
        records = 2 * MOST_PANES * MOST_CLOCKS * len(panes.keys(Place(0, 0), size, self._bus.max_record_bytes))
        shelf = Shelf(self._spec.fingerprint, size, records, self._schemas)
        topic, index = self.partition
        end = self._bus.ends(topic)[index]
        with self._bus.reader({self.partition: self._bus.starts(topic)[index]}) as reader:
            while reader.position(self.partition) < end:
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        shelf.add(record.key, record.value)
        return shelf

    def _misfit(self, snapshot: Snapshot, detail: str) -> Fatal:
        return Fatal(
            f"{self.partition}: the panes there are not those of the posterior's version {snapshot.version}: {detail}. "
            "Going on would forget events of the window, or count some that have left it: run the version that wrote "
            "them (with the schema registry that it used), or give the spec a new name."
        )
