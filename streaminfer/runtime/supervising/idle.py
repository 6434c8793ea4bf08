"""`--until-idle`: the ends are read once, and the posterior has reached them, with all that is done then."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus, Partition, Position
from streaminfer.runtime import names
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot


class IdleMark:
    """The ends of the data topic at one moment. They are kept on the bus too: a worker that never lingers
    cuts its last minibatch there, so its boundaries still depend on positions alone."""

    def __init__(self, spec: Spec, bus: Bus) -> None:
        topic = names.data_topic(spec)
        self._topic_id = bus.topic_id(topic)
        self.ends = bus.ends(topic)
        self._last_epoch, self._pooled = spec.inference.n_epochs - 1, spec.pooled
        self._n_units = 0 if spec.sampling is None or spec.sampling.source == "stream" else spec.sampling.n_units
        group = names.until_idle_group(spec)
        positions = {Partition(topic, index): Position(end) for index, end in self.ends.items()}
        with bus.writer(group) as writer:
            writer.commit([], positions, group)

    def reached(self, snapshot: Snapshot | None) -> bool:
        """Whether every partition's committed frontier is at its end or beyond, in the last pass, and drawn from.

        A pooled prior must be that of all events. If a frontier is beyond its end, more events have come since, and the
        prior is never fitted to those of before. A frontier of another topic, since made anew under its name, has
        reached nothing.
        """
        if snapshot is None:
            return False
        frontier, counts = snapshot.frontier, snapshot.counts
        if frontier.epoch < self._last_epoch or frontier.topic_id not in {"", self._topic_id}:
            return False
        if self._n_units and not self._is_drawn(snapshot.payload.sampled):
            return False
        there = [frontier.positions.get(index, -1) - end for index, end in self.ends.items()]
        fitted = not self._pooled or counts.n_pooled == counts.n_events or any(ahead > 0 for ahead in there)
        return fitted and all(ahead >= 0 for ahead in there)

    def _is_drawn(self, sampled: Sampled | None) -> bool:
        """Whether all chains have all draws, also those that were added since the snapshot before."""
        return sampled is not None and sampled.shown.complete and len(sampled.shown.chains) >= self._n_units
