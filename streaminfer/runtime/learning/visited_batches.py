"""What the posterior has of each batch of memoized inference, for a worker that learns a batch without that."""

from __future__ import annotations

import logging
from typing import Final

from streaminfer.bus.protocol import Bus, Partition
from streaminfer.models.model import Vector
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.reading.tape import Minibatch
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Fatal
from streaminfer.spec import Spec
from streaminfer.tables.kept import MOST_BATCHES
from streaminfer.wire import panes
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.panes import PanePlace, Shelf

WAIT: Final = 0.1
"""Seconds that one look waits for records; between looks a worker shows that it is alive."""

log = logging.getLogger(__name__)


class VisitedBatches:
    """Follows the topic that masters keep batches on, one pass behind: so every batch is as the last pass left it.

    Each batch is committed with its snapshot. So when a worker sees a snapshot of a new pass, all batches of the pass
    before are on the topic, or become visible soon, as Kafka ends a transaction partition by partition. Within a pass a
    batch changes only by the increment that is made of it here.
    """

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas) -> None:
        self._bus = bus
        self._partition = Partition(names.topic(spec, panes.TOPIC), 0)
        size = spec.model.size
        records = MOST_BATCHES * len(panes.keys(PanePlace(0, 0), size, bus.max_record_bytes))
        self._shelf = Shelf(spec.fingerprint, size, records, schemas, least=0)
        self._reader = bus.reader({self._partition: bus.starts(self._partition.topic)[0]})
        self._epoch = 0
        self._teller = Teller(log)
        self._end: int | None = None
        """The end on the topic of the batches of the passes before, once that is known."""

    def ready(self, epoch: int) -> bool:
        """Whether all is known that passes before this one have left; each call reads on until it is."""
        if epoch == self._epoch:
            return True
        topic = self._partition.topic
        if self._end is None and self._bus.hidden(topic)[0]:
            return False
        if self._end is None:
            self._end = self._bus.ends(topic)[0]
        if self._reader.position(self._partition) < self._end:
            self._read()
        if self._reader.position(self._partition) < self._end:
            return False
        self._epoch, self._end = epoch, None
        return True

    def statistics(self, batch: Minibatch) -> Vector | None:
        """What the last pass made of a batch of the pass that is `ready`; None if that was nothing."""
        if batch.epoch != self._epoch:
            raise ValueError(f"pass {batch.epoch} is asked for, and {self._epoch} is ready")
        try:
            found = self._shelf.pane(PanePlace(batch.partition.index, batch.begin))
        except WireError as error:
            raise Fatal(f"{self._partition}: what the posterior has of a batch cannot be read: {error}") from error
        return found.statistics if found is not None and found.n_events else None

    def close(self) -> None:
        self._reader.close()

    def _read(self) -> None:
        for part in self._reader.poll(WAIT).slices:
            for record in part.records:
                try:
                    self._shelf.add(record.key, value_of(record))
                except WireError as error:
                    self._teller.tell(f"{record.partition} offset {record.offset} is not a batch: {error}")
