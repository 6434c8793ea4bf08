"""The real sampler and its master on a simulated bus, one step at a time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import MasterMetrics, SamplerMetrics
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import SimulatedBus


def coin(partitions: int = 1, **inference: Any) -> Spec:
    """A spec with draws of one probability."""
    model = {"kind": "bernoulli", "field": "y"}
    said = {"method": "gibbs", "chains": 1, "draws": 20, **inference}
    return parse_spec({"name": "demo", "data": {"partitions": partitions}, "model": model, "inference": said})


class TickingClock(Clock):
    """Time passes whenever it is asked for, so that a slice of work ends."""

    tick = 0.02

    def __call__(self) -> float:
        self.advance(self.tick)
        return super().__call__()


class SamplerRig:
    """A broker with a spec's topics; services that share it, and what they left on it."""

    def __init__(self, spec: Spec) -> None:
        self.spec, self.clock = spec, TickingClock()
        self.broker = Broker(self.clock)
        self.bus = SimulatedBus(self.broker)
        names.create_topics(spec, self.bus)
        registry = CollectorRegistry()
        self._sampler, self._master = SamplerMetrics(registry, "demo"), MasterMetrics(registry, "demo")

    def sampler(self) -> Sampler:
        return Sampler(self.spec, SimulatedBus(self.broker), self.clock, self._sampler)

    def master(self) -> PoolingMaster:
        return PoolingMaster(self.spec, SimulatedBus(self.broker), self.clock, self._master, wall=self.clock)

    def publish(self, events: list[Any], partition: int = 0) -> None:
        topic = names.data_topic(self.spec)
        self.bus.publish([Output(topic, json.dumps(event).encode(), None, partition) for event in events])

    def run(self, *services: Service, rounds: int = 40, seconds: float = 0.3) -> None:
        """Everybody's turn, and some time, again and again."""
        for _ in range(rounds):
            for service in services:
                service.step(0.0)
            self.clock.advance(seconds)

    def draws(self, unit: int = 0) -> list[Draws]:
        """All blocks of a unit that are on the topic."""
        settings = self.spec.sampling
        assert settings is not None
        reader = DrawsReader(self.spec, settings, flat.size(self.spec.target.shapes), self.bus, DECLARED, [unit])
        found: list[Draws] = []
        while not reader.at_end():
            found += [each.value for each in reader.poll(0.0)]
        return found

    def values(self, unit: int = 0) -> np.ndarray:
        return np.concatenate([block.values for block in self.draws(unit)])

    def snapshot(self) -> Snapshot:
        found = Follower(self.spec, self.bus).catch_up()
        assert found is not None
        return found

    def records(self, short: str, partition: int = 0) -> list[Record]:
        with self.bus.reader({Partition(names.topic(self.spec, short), partition): 0}) as reader:
            return [record for part in reader.poll(0.0).slices for record in part.records]
