"""The real sampler and its master on a simulated bus, one step at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.api.draws import DrawsOnBus, Selection
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import MasterMetrics, SamplerMetrics
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.states import SamplerState
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import Faults, SimulatedBus

POISSON: dict[str, Any] = {"kind": "poisson", "field": "k"}
LOGISTIC: dict[str, Any] = {"kind": "logistic_regression", "features": ["a", "b"], "target": "t"}
LINEAR: dict[str, Any] = {"kind": "linear_regression", "features": ["a", "b"], "target": "t"}


def sampled(model: Mapping[str, Any] = POISSON, data: Mapping[str, Any] | None = None, **inference: Any) -> Spec:
    """A spec with short chains; every change is published at once."""
    settings = {"method": "mh", "chains": 2, "draws": 40, "warmup": 20, "snapshot_ms": 1, **inference}
    return parse_spec(
        {"name": "demo", "data": {"partitions": 1, **(data or {})}, "model": model, "inference": settings}
    )


class TickingClock(Clock):
    """Time that passes with every look at it, so that a slice of work has an end."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self.tick = tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


class SamplerRig:
    """A broker with a spec's topics; samplers and masters that share it, and what they left on it.

    Without a `tick` time stands still during a step, so a sampler works until there is nothing left to do.
    """

    def __init__(self, spec: Spec, tick: float = 0.0) -> None:
        assert spec.sampling is not None
        self.spec, self.settings, self.clock = spec, spec.sampling, TickingClock(tick)
        self.broker = Broker(self.clock)
        self.bus = SimulatedBus(self.broker)
        names.create_topics(spec, self.bus)
        self.registry = CollectorRegistry()
        self._sampler_metrics = SamplerMetrics(self.registry, spec.name)
        self._master_metrics = MasterMetrics(self.registry, spec.name)

    def sampler(self, faults: Faults | None = None) -> Sampler:
        return Sampler(self.spec, SimulatedBus(self.broker, faults), self.clock, self._sampler_metrics)

    def master(self) -> PoolingMaster:
        return PoolingMaster(self.spec, SimulatedBus(self.broker), self.clock, self._master_metrics, wall=self.clock)

    def run(self, *services: Service, rounds: int = 12, seconds: float = 0.5) -> None:
        """Everybody's turn, and a little time, again and again."""
        for _ in range(rounds):
            for service in services:
                service.step(0.0)
            self.clock.advance(seconds)

    def run_to(self, segment: int, *services: Service, rounds: int = 400) -> Snapshot:
        """Until a segment is complete."""
        for _ in range(rounds):
            self.run(*services, rounds=1)
            found = self.newest()
            shown = None if found is None else found.payload.sampled
            if found is not None and shown is not None and shown.shown.complete and shown.shown.segment == segment:
                return found
        raise AssertionError(f"segment {segment} is not complete: {shown and shown.shown}")

    def send(self, *events: Any, partition: int = 0, timestamp: int | None = None) -> None:
        """Events as mappings, or bytes as they are."""
        data = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in events]
        topic = names.data_topic(self.spec)
        self.bus.publish([Output(topic, each, partition=partition, timestamp=timestamp) for each in data])

    def remove_before(self, position: int, partition: int = 0) -> None:
        """What retention does."""
        self.bus.delete_before(Partition(names.data_topic(self.spec), partition), position)

    def newest(self) -> Snapshot | None:
        """The newest snapshot on the bus."""
        with closing(Follower(self.spec, self.bus)) as follower:
            return follower.catch_up()

    def seen(self) -> PosteriorSnapshot:
        """The same as a user has it."""
        found = self.newest()
        assert found is not None
        return PosteriorSnapshot(self.spec, found)

    def draws(self, segment: int | None = None, chain: int | None = None) -> list[Draws]:
        """Blocks of draws of the newest segment, or of another."""
        with closing(DrawsOnBus(self.spec, self.bus, DECLARED, Selection(segment, chain=chain))) as source:
            return source.all()

    def states(self) -> list[SamplerState]:
        """Of all units, as their next owner finds them."""
        return [self._state(unit) for unit in range(self.settings.n_units)]

    def _state(self, number: int) -> SamplerState:
        with closing(OwnedUnit(self.spec, self.settings, self.spec.target, self.bus, number, DECLARED)) as unit:
            while not unit.restored():
                pass
            return unit.state

    def records(self, short: str, partition: int = 0) -> Sequence[Record]:
        return self.broker.log(Partition(names.topic(self.spec, short), partition)).records

    def value(self, metric: str) -> float:
        found = self.registry.get_sample_value(f"streaminfer_{metric}", {"posterior": self.spec.name})
        return 0.0 if found is None else found
