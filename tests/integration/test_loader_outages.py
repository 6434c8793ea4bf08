"""Loading a file while the bus fails: whatever a commit that failed did, each row is there once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Unavailable
from streaminfer.bus.sqlite.writer import SqliteWriter
from streaminfer.runtime import names
from streaminfer.runtime.loading import produce
from streaminfer.runtime.loading.produce import Loader
from streaminfer.spec.load import parse_spec
from tests.contracts.bus_harness import read_all

ROWS = 2500  # three batches and the commit of the end


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCH_RECORDS", 1000)


def _full(bus: EmbeddedBus, pages: int) -> None:
    bus._store._usable().execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_told_once_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
    data = tmp_path / "data.ndjson"
    data.write_text("".join(f'{{"k":{i}}}\n' for i in range(ROWS)))
    with EmbeddedBus(tmp_path / "bus") as bus:
        names.create_topics(spec, bus)
        _full(bus, 30)
        loader = Loader(spec, bus, data)
        began, waiting = time.monotonic(), []
        for progress in loader.run():
            waiting.append(progress.rows)
            if time.monotonic() - began > 2:
                _full(bus, 1_000_000)
        assert len(waiting) < 60, "it sleeps between its tries"
        found = sorted(int((record.value or b"")[5:-1]) for record in read_all(bus, names.topic(spec, "events")))
    assert found == list(range(ROWS))
    assert loader.resumed == 0, "what was sent before the disk was full is this run's too"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert "database or disk is full: free some space on its disk" in told[0]


def test_a_full_disk_is_given_up_on_when_asked_to(tmp_path: Path) -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
    data = tmp_path / "data.ndjson"
    data.write_text("".join(f'{{"k":{i}}}\n' for i in range(ROWS)))
    with EmbeddedBus(tmp_path / "bus") as bus:
        names.create_topics(spec, bus)
        _full(bus, 30)
        with pytest.raises(
            Unavailable, match=r"disk is full.*Gave up after 1 s .*run it again to continue where it stopped"
        ):
            list(Loader(spec, bus, data, give_up_s=0.6).run())


@pytest.mark.parametrize("took_effect", [True, False], ids=["done", "not done"])
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
def test_each_row_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, took_effect: bool
) -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
    data = tmp_path / "data.ndjson"
    data.write_text("".join(f'{{"k":{i}}}\n' for i in range(ROWS)))
    real, calls = SqliteWriter.commit, []

    def commit(self: SqliteWriter, outputs: Sequence[Output], *rest: Any) -> list[int]:
        calls.append(len(outputs))
        if len(calls) - 1 != failing:
            return real(self, outputs, *rest)
        if took_effect:
            real(self, outputs, *rest)
        raise Unavailable("the broker is away")

    monkeypatch.setattr(SqliteWriter, "commit", commit)
    with EmbeddedBus(tmp_path / "bus") as bus:
        names.create_topics(spec, bus)
        *_, last = Loader(spec, bus, data).run()
        found = sorted(int((record.value or b"")[5:-1]) for record in read_all(bus, names.topic(spec, "events")))
    assert found == list(range(ROWS))
    assert last.bytes_read == last.bytes_total or failing == 3
