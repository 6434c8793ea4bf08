"""The real worker and master on a simulated bus, one step at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import MasterMetrics, WorkerMetrics
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import increments, snapshots
from streaminfer.wire.events.formats import max_events
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import Faults, SimulatedBus


def poisson(partitions: int = 1, **inference: Any) -> Spec:
    """A spec whose first statistic is the sum of `k`; nothing lingers and every change is published at once."""
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **inference}
    model = {"kind": "poisson", "field": "k"}
    return parse_spec({"name": "demo", "data": {"partitions": partitions}, "model": model, "inference": settings})


class OneByOne(Worker):
    """Makes an increment of every minibatch."""

    @staticmethod
    def merged_bytes(spec: Spec) -> int:
        return 0


class Rig:
    """A broker with a spec's topics; services that share it, and what they left on it."""

    def __init__(
        self, spec: Spec, markers: bool = False, max_record_bytes: int | None = None, merges: bool = True
    ) -> None:
        """Without `merges` workers make an increment of every minibatch, whatever the spec's model is."""
        self.spec, self.clock = spec, Clock()
        self._worker_kind = Worker if merges else OneByOne
        self.broker = Broker(self.clock, markers=markers)
        if max_record_bytes is not None:
            self.broker.max_record_bytes = max_record_bytes
        self.bus = SimulatedBus(self.broker)
        names.create_topics(spec, self.bus)
        self.registry = CollectorRegistry()
        self._worker_metrics = WorkerMetrics(self.registry, spec.name)
        self._master_metrics = MasterMetrics(self.registry, spec.name)

    def worker(self, identity: str = "w", faults: Faults | None = None) -> Worker:
        bus = SimulatedBus(self.broker, faults)
        return self._worker_kind(self.spec, bus, self.clock, identity, self._worker_metrics)

    def master(self, faults: Faults | None = None) -> Master:
        return Master(self.spec, SimulatedBus(self.broker, faults), self.clock, self._master_metrics, wall=self.clock)

    def run(self, *services: Service, rounds: int = 12, seconds: float = 0.01) -> None:
        """Each service's turn, and a little time, again and again."""
        for _ in range(rounds):
            for service in services:
                service.step(0.0)
            self.clock.advance(seconds)

    def send(self, *values: Any, partition: int = 0) -> None:
        """Events of the field `k`; bytes go as they are. One transaction each, so that markers follow each."""
        for value in values:
            data = value if isinstance(value, bytes) else json.dumps({"k": value}).encode()
            with self.bus.writer("test") as writer:
                writer.commit([Output(self.topic("events"), data, partition=partition)])

    def publish(self, increment: Increment, max_bytes: int = 1 << 20) -> None:
        """An increment of another worker, with events that are on the data topic."""
        behind = (
            increment.provenance.end
            - self.broker.log(Partition(self.topic("events"), increment.provenance.partition)).end
        )
        if 0 < behind < 100:
            self.send(*[0] * behind, partition=increment.provenance.partition)
        data = increments.encode(increment, max_bytes)
        self.bus.publish([Output(self.topic("increments"), each, b"0", 0) for each in data])

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot of another master."""
        natural = self.spec.model.posterior(snapshot.payload.statistics).natural
        about = snapshots.About(self.spec.name, self.spec.model.kind, "gamma", "svb", "exact")
        records = snapshots.encode(snapshot, natural, about, 1 << 20)
        self.bus.publish([Output(self.topic("posterior"), data, key, 0) for key, data in records])

    def topic(self, short: str) -> str:
        return names.topic(self.spec, short)

    def records(self, short: str, partition: int = 0) -> Sequence[Record]:
        return self.broker.log(Partition(self.topic(short), partition)).records

    def increments(self) -> list[dict[str, Any]]:
        """What stands on the increments topic, decoded."""
        most = max_events(self.spec)
        return [increments.decode(record.value, max_events=most).value for record in self.records("increments")]

    def spans(self) -> list[tuple[int, int, int]]:
        """(begin, end, events) of every increment."""
        return [(each["begin"], each["end"], each["n_events"]) for each in self.increments()]

    def snapshot(self) -> Snapshot:
        """The newest one on the bus."""
        follower = Follower(self.spec, self.bus)
        found = follower.catch_up()
        assert found is not None
        return found

    def total(self) -> float:
        """The sum of `k` in the newest snapshot."""
        return float(self.snapshot().payload.statistics[0])

    def value(self, metric: str, **labels: str) -> float:
        found = self.registry.get_sample_value(f"streaminfer_{metric}", {"posterior": self.spec.name, **labels})
        return 0.0 if found is None else found

    def outcome(self, name: str) -> float:
        """Increments of one outcome so far."""
        return self.value("master_increments_total", outcome=name)
