"""`--until-idle`: the ends are read once, and the posterior has reached them, in the last pass over the data."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus, Partition, Position
from streaminfer.runtime import names
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot


class IdleMark:
    """The ends of the data topic at one moment. They are kept on the bus too: a worker that never lingers
    cuts its last minibatch there, so its boundaries still depend on positions alone."""

    def __init__(self, spec: Spec, bus: Bus) -> None:
        topic = names.data_topic(spec)
        self.ends = bus.ends(topic)
        self._last_epoch = spec.inference.n_epochs - 1
        group = names.until_idle_group(spec)
        positions = {Partition(topic, index): Position(end) for index, end in self.ends.items()}
        with bus.writer(group) as writer:
            writer.commit([], positions, group)

    def reached(self, snapshot: Snapshot | None) -> bool:
        """Whether every partition's committed frontier is at its end or beyond, in the last pass."""
        if snapshot is None or snapshot.epoch < self._last_epoch:
            return False
        return all(snapshot.frontier.get(index, -1) >= end for index, end in self.ends.items())
