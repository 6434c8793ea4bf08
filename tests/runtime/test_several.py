"""Several services in one process: each has its turn, and their metrics are one page."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaminfer.bus.protocol import Unavailable
from streaminfer.runtime.running.several import Several, Together
from streaminfer.runtime.telemetry import MonitorMetrics


class One:
    """A service that writes down what is asked of it."""

    def __init__(self, ready: bool = True, stuck: bool = False) -> None:
        self.ready, self._stuck = ready, stuck
        self.calls: list[object] = []

    def step(self, timeout: float) -> None:
        self.calls.append(timeout)

    def reset(self) -> None:
        self.calls.append("reset")

    def close(self) -> None:
        self.calls.append("close")
        if self._stuck:
            raise Unavailable("no")


def test_each_has_its_turn_in_its_share_of_the_time() -> None:
    made = [One(), One()]
    several = Several(made)
    several.step(0.5)
    several.reset()
    several.close()
    assert [each.calls for each in made] == [[0.25, "reset", "close"]] * 2
    assert several.ready
    assert not Several([One(), One(ready=False)]).ready


def test_all_are_closed_if_one_cannot_be() -> None:
    made = [One(stuck=True), One(), One()]
    with pytest.raises(Unavailable):
        Several(made).close()
    assert [each.calls for each in made] == [["close"]] * 3


def test_metrics_of_the_same_name_are_one_family() -> None:
    registries = [CollectorRegistry(), CollectorRegistry()]
    for name, registry in zip(("a", "b"), registries, strict=True):
        MonitorMetrics(registry, name).verdict.set(1)
    page = CollectorRegistry()
    page.register(Together(registries))
    text = generate_latest(page).decode()
    assert text.count("# TYPE streaminfer_monitor_verdict gauge") == 1
    found = {each.name: each for each in text_string_to_metric_families(text)}["streaminfer_monitor_verdict"]
    assert [(sample.labels["posterior"], sample.value) for sample in found.samples] == [("a", 1.0), ("b", 1.0)]
    assert generate_latest(page).decode() == text, "asking twice changes nothing"
