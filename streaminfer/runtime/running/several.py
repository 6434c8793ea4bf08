"""Several services of one kind in one process, such as the monitors of several posteriors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from streaminfer.runtime.service import Service


class Several:
    """Takes a turn of each at each step."""

    def __init__(self, services: Sequence[Service]) -> None:
        self._services = services

    @property
    def ready(self) -> bool:
        return all(each.ready for each in self._services)

    def step(self, timeout: float) -> None:
        for each in self._services:
            each.step(timeout / len(self._services))

    def reset(self) -> None:
        for each in self._services:
            each.reset()

    def close(self) -> None:
        for i, each in enumerate(self._services):
            try:
                each.close()
            except BaseException:
                Several(self._services[i + 1 :]).close()
                raise


class Together(Collector):
    """The metrics of several registries, with all samples of a name in one family as the format demands."""

    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        found: dict[str, Metric] = {}
        for registry in self._registries:
            for metric in registry.collect():
                if metric.name in found:
                    found[metric.name].samples += metric.samples
                else:
                    found[metric.name] = metric
        return found.values()
