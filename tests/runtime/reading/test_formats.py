"""Data formats through the worker: many events a record, bad ones among them, dead letters sent again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Unavailable
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.loading.produce import publish_rows
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.base import prior
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import svb
from streaminfer.wire.avro import Schemas
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.rows import Table, pack
from tests.made import new_increment
from tests.runtime.rig import Rig


def spec_of(form: str, **inference: Any) -> Spec:
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **inference}
    model = {"kind": "poisson", "field": "k"}
    return parse_spec(
        {"name": "demo", "data": {"format": form, "partitions": 1}, "model": model, "inference": settings}
    )


def rows_of(*counts: float) -> bytes:
    return pack(3, Table(("k",), np.array(counts)[:, None]))


def test_a_minibatch_is_cut_in_records_and_counts_events() -> None:
    rig = Rig(spec_of("rows"), merges=False)
    worker, master = rig.worker(), rig.master()
    rig.send(*[rows_of(*range(i + 1)) for i in range(8)])
    rig.run(worker, master)
    assert rig.spans() == [(0, 4, 10), (4, 8, 26)]
    assert rig.snapshot().n_events == 36
    assert rig.total() == sum(sum(range(i + 1)) for i in range(8))


def test_bad_rows_are_one_letter_and_count_once_when_they_are_sent_again() -> None:
    rig = Rig(spec_of("rows"))
    worker, master = rig.worker(), rig.master()
    rig.send(rows_of(1, -1, 2, 0.5, 4), rows_of(8), b"junk", rows_of(-3, -4))
    rig.run(worker, master)
    snapshot = rig.snapshot()
    assert (snapshot.n_events, snapshot.counts.n_dead_lettered, rig.total()) == (4, 5, 15)
    found = list(Pending(rig.spec, rig.bus))
    assert [(x.offset, x.value) for x in found] == [(0, rows_of(-1, 0.5)), (2, b"junk"), (3, rows_of(-3, -4))]
    rule = "k: must be a whole number from 0 to 2^53"
    assert [x.reason for x in found] == [
        f"rows 1, 3 of 5: {rule} (got -1, 0.5)",
        "not rows: 4 bytes are too few for the five of the framing",
        f"rows 0-1 of 2: {rule} (got -3, -4)",
    ]
    assert sum(store.retry(rig.spec, rig.bus, found)) == 3
    rig.send(rows_of(16))
    rig.run(worker, master)
    again = rig.snapshot()
    assert (again.n_events, again.counts.n_dead_lettered, rig.total()) == (5, 10, 31)
    assert [x.value for x in list(Pending(rig.spec, rig.bus))] == [rows_of(-1, 0.5), b"junk", rows_of(-3, -4)]


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
def test_rows_of_python_are_written_in_the_specs_format(form: str) -> None:
    rig = Rig(spec_of(form, minibatch=1))
    sent = [{"k": np.int64(2**i), "more": "text"} for i in range(20)]
    assert publish_rows(rig.spec, rig.bus, sent) == 20
    assert len(rig.records("events")) == (1 if form == "rows" else 20)
    rig.run(rig.worker(), rig.master())
    assert (rig.snapshot().n_events, rig.total()) == (20, 2**20 - 1)


def test_a_letter_of_avro_is_byte_for_byte() -> None:
    rig = Rig(spec_of("avro"))
    good, negative = format_of(rig.spec).encode([b'{"k":3}', b'{"k":-3}'])
    rig.send(good, negative, good + b"!", good)
    rig.run(rig.worker(), rig.master())
    assert [(x.value, x.reason) for x in list(Pending(rig.spec, rig.bus))] == [
        (negative, "k: must be a whole number from 0 to 2^53 (got -3)"),
        (good + b"!", "not Avro: 1 bytes are left over after the record"),
    ]
    assert (rig.snapshot().n_events, rig.snapshot().counts.n_dead_lettered, rig.total()) == (2, 2, 6)


def test_a_registry_that_is_away_makes_no_bad_events() -> None:
    spec = spec_of("avro", minibatch=2)
    rig = Rig(spec)
    away = [True]

    def lookup(schema_id: int) -> str | None:
        if away:
            raise Unavailable("no answer")
        return spec.event_schema if schema_id == 9 else None

    worker = Worker(spec, rig.bus, rig.clock, "w", rig._worker_metrics, schemas=Schemas({"events": 9}, lookup=lookup))
    master = rig.master()
    (record,) = format_of(spec, Schemas({"events": 9})).encode([b'{"k":5}'])
    unknown = b"\0\0\0\0\x0a" + record[5:]
    rig.send(record, unknown)
    rig.run(master)
    with pytest.raises(Unavailable):
        rig.run(worker, master)
    worker.reset()
    assert rig.records("dead-letters") == []
    away.clear()
    rig.run(worker, master)
    assert (rig.snapshot().n_events, rig.total()) == (1, 5)
    assert [(x.value, x.reason) for x in list(Pending(spec, rig.bus))] == [
        (unknown, "schema id 10 is not in the registry")
    ]


def test_an_increment_counts_no_more_events_than_its_records_can_have() -> None:
    """In the format rows a record may have many; in json the master still refuses more events than positions."""
    for form, folded in (("rows", True), ("json", False)):
        rig = Rig(spec_of(form))
        master = rig.master()
        rig.run(master)
        rig.publish(_increment(rig.spec, n_events=50))
        rig.run(master)
        assert (rig.snapshot().n_events == 50) is folded


def _increment(spec: Spec, n_events: int) -> Increment:
    step = svb.step(spec.model, prior(spec.model), np.ones((n_events, 1)))
    return new_increment(
        fingerprint=spec.fingerprint, writer="x", topic="demo.events", begin=0, end=4, n_events=n_events,
        statistics=step.statistics,
    )  # fmt: skip
