"""Metrics of the whole job, as its processes have told them with their signs of life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.telemetry import UpMetrics


class JobMetrics(Collector):
    """What the supervisor tells, under the names it has there; and the counters of all processes under one name."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._of_supervisors()
        labels = ["posterior", "service", "instance"]
        alive = GaugeMetricFamily("streaminfer_service_healthy", "1 if a process has beaten lately", labels=labels)
        text = "What a process counted or showed at its last sign of life, by its short name"
        told = GaugeMetricFamily("streaminfer_service_value", text, labels=[*labels, "name"])
        for memory in self._memories:
            name, now = memory.spec.name, memory.now()
            for (service, instance), process in sorted(memory.services.shown.items()):
                alive.add_metric([name, service, instance], float(process.state(now) == "healthy"))
                for counter, value in process.beat.counters.items():
                    told.add_metric([name, service, instance, counter], value)
        yield from (alive, told)

    def _of_supervisors(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for memory in self._memories:
            supervisor = memory.services.newest(UpMetrics.role)
            counters = {} if supervisor is None else supervisor.beat.counters
            for counter, value in counters.items():
                name = f"streaminfer_{UpMetrics.role}_{counter}"
                family = families.setdefault(name, GaugeMetricFamily(name, "Told by `up`", labels=["posterior"]))
                family.add_metric([memory.spec.name], value)
        yield from families.values()
