"""What the posterior has of each batch of memoized inference, for a worker that learns a batch without that."""

from __future__ import annotations

import logging

from streaminfer.bus.protocol import Bus, Partition
from streaminfer.models.model import Vector
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.pane_store import MOST_BATCHES
from streaminfer.runtime.patience import Teller
from streaminfer.runtime.tape import Minibatch
from streaminfer.spec import Spec
from streaminfer.wire import panes
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.panes import Place, Shelf

log = logging.getLogger(__name__)


class VisitedBatches:
    """Follows the topic that masters keep batches on, one pass behind: so every batch is as the last pass left it.

    When a worker sees a snapshot of a new pass, all batches of the pass before are on the topic, as each was committed
    with its snapshot. Within a pass a batch changes only by the increment that is made of it here.
    """

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas) -> None:
        self._bus = bus
        self._partition = Partition(names.topic(spec, panes.TOPIC), 0)
        size = spec.model.size
        records = MOST_BATCHES * len(panes.keys(Place(0, 0), size, bus.max_record_bytes))
        self._shelf = Shelf(spec.fingerprint, size, records, schemas, least=0)
        self._reader = bus.reader({self._partition: bus.starts(self._partition.topic)[0]})
        self._epoch = 0
        self._teller = Teller(log)

    def statistics(self, batch: Minibatch) -> Vector | None:
        """What the last pass made of a batch; None if that was nothing."""
        if batch.epoch != self._epoch:
            self._catch_up()
            self._epoch = batch.epoch
        found = self._shelf.pane(Place(batch.partition.index, batch.begin))
        return found.statistics if found is not None and found.n_events else None

    def close(self) -> None:
        self._reader.close()

    def _catch_up(self) -> None:
        end = self._bus.ends(self._partition.topic)[0]
        while self._reader.position(self._partition) < end:
            for part in self._reader.poll(1.0).slices:
                for record in part.records:
                    try:
                        self._shelf.add(record.key, value_of(record))
                    except WireError as error:
                        self._teller.tell(f"{record.partition} offset {record.offset} is not a batch: {error}")
