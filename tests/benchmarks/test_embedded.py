"""The benchmark on the embedded bus, with very little work: what it runs and how it checks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks.cases import OURS, QUICK, Bench, rate
from benchmarks.measure import Case, measured
from benchmarks.workload import Workload, encoded, load, matrix, spec
from streaminfer.bus.connect import open_bus
from streaminfer.spec import parse_spec
from streaminfer.wire.formats import format_of


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
def test_records_hold_the_events(form: str) -> None:
    work = Workload(form, 1024, d=3)
    events = matrix(work)
    made = list(encoded(work, events))
    decoded = format_of(parse_spec(yaml.safe_load(spec("bench", work)))).decode(made)
    assert len(made) == work.records
    assert not decoded.bad
    np.testing.assert_array_equal(decoded.events, events)


def test_loading_fills_the_partitions_evenly_and_once(tmp_path: Path) -> None:
    work = Workload("avro", 103, d=2)
    with open_bus(f"embedded:{tmp_path}") as bus:
        load(bus, work)
        load(bus, work)
        assert bus.ends(work.topic) == {0: 26, 1: 26, 2: 26, 3: 25}


def test_a_small_case_of_real_processes(tmp_path: Path) -> None:
    """Ours and the bare loop do the work; `checked` would refuse sums of other events."""
    work = Workload("json", 40_960, d=2)
    bench = Bench(tmp_path, QUICK, None)
    contenders = {
        OURS: rate(OURS, lambda: bench.ours(bench.embedded_url, work)),
        "bare": rate("bare", lambda: bench.bare_embedded(work)),
    }
    figures = measured(Case("c", "small", "events/s", contenders), 1)
    assert [figure.name for figure in figures] == [OURS, "bare"]
    assert all(figure.median > 0 for figure in figures)
