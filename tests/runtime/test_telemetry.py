"""Metrics of masters: a label for each shard, and nothing of a shard that has left."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from streaminfer import __version__
from streaminfer.runtime.telemetry import MasterMetrics, about_process
from streaminfer.variational import fold
from streaminfer.variational.counts import Totals
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.rig import Rig, poisson


def snapshot(version: int, n_events: int) -> Snapshot:
    spec = poisson()
    start = fold.start(spec.model, spec.fingerprint)
    return replace(start, version=version, counts=Totals(n_events=n_events), created_at=1000 * version)


class Told:
    """A master's metrics, and what they are."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = MasterMetrics(self.registry, "demo")

    def of(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"streaminfer_master_{name}", {"posterior": "demo", **labels})


def test_each_shard_has_its_own_gauges() -> None:
    told = Told()
    for shard, version in ((0, 3), (1, 7)):
        told.metrics.tell(shard, snapshot(version, 10), 10.0, scored=True)
        told.metrics.behind(shard, 5 + shard)
    assert [told.of("shard_version", shard=shard) for shard in "01"] == [3, 7]
    assert [told.of("snapshot_timestamp_seconds", shard=shard) for shard in "01"] == [3, 7]
    assert [told.of("positions_behind", shard=shard) for shard in "01"] == [5, 6]
    assert (told.of("events"), told.of("version")) == (20, 7)


def test_nothing_is_told_of_a_shard_that_has_left() -> None:
    told = Told()
    for shard in (0, 1):
        told.metrics.tell(shard, snapshot(3 + shard, 10), 10.0, scored=True)
        told.metrics.behind(shard, 5)
    told.metrics.left(1)
    assert told.of("shard_version", shard="1") is None
    assert told.of("positions_behind", shard="1") is None
    assert told.of("snapshot_timestamp_seconds", shard="1") is None
    assert (told.of("events"), told.of("version")) == (10, 3), "what is left is told at once"
    told.metrics.left(0)
    assert told.of("events") is None
    assert told.of("snapshots_total") == 2, "what was counted stays"
    told.metrics.left(0)
    told.metrics.tell(0, snapshot(9, 30), 30.0, scored=True)
    assert told.of("events") == 30


def test_a_master_tells_how_far_it_is_behind() -> None:
    rig = Rig(poisson(partitions=2))
    worker, master = rig.worker(), rig.master()
    rig.send(1, 2, 3, 4)
    rig.run(worker, master, seconds=1.0)
    assert rig.value("master_positions_behind", shard="0") == 0
    rig.send(5, 6, 7, partition=1)
    rig.run(master, seconds=1.0)
    assert rig.value("master_positions_behind", shard="0") == 3
    assert rig.value("master_snapshot_timestamp_seconds", shard="0") == rig.snapshot().created_at / 1000
    master.reset()
    assert "positions_behind{" not in generate_latest(rig.registry).decode()


def test_a_process_tells_its_version_and_needs() -> None:
    registry = CollectorRegistry()
    about_process(registry)
    page = generate_latest(registry).decode()
    assert f'version="{__version__}"' in page
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
        assert f"\n{name} " in page
