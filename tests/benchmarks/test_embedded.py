"""The benchmark on the embedded bus, with very little work: what it runs and how it checks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from benchmarks import keyed, keyed_cases, keyed_workload
from benchmarks.cases import OURS, QUICK, Bench
from benchmarks.combined import Block, Sight, delays
from benchmarks.contenders import loading as loading_contenders
from benchmarks.keyed_workload import Keyed
from benchmarks.loading_cases import Loading
from benchmarks.measure import Case, measured, rate
from benchmarks.processes import Failed
from benchmarks.workload import Workload, encoded, load, matrix, spec
from streaminfer.bus.connect import open_bus
from streaminfer.spec import parse_spec
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.rows import unpack


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
def test_records_hold_the_events(form: str) -> None:
    work = Workload(form, 1024, d=3)
    events = matrix(work)
    made = list(encoded(work, events))
    decoded = format_of(parse_spec(yaml.safe_load(spec("bench", work)))).decode(made)
    assert len(made) == work.records
    assert not decoded.bad
    np.testing.assert_array_equal(decoded.events.numbers, events)


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


def test_keyed_events_are_dealt_by_key_and_add_up() -> None:
    work = Keyed(events=10_007, keys=300)
    found: dict[int, list[float]] = {}
    places: dict[int, set[int | None]] = {}
    for output in keyed_workload.outputs("t", work):
        for key, count in unpack(output.value).values.tolist():
            found.setdefault(int(key), []).append(count)
            places.setdefault(int(key), set()).add(output.partition)
    assert sorted(found) == list(range(300))
    assert {len(counts) for counts in found.values()} == {33, 34}
    assert all(len(each) == 1 for each in places.values())
    np.testing.assert_array_equal(keyed_workload.totals(work), [sum(found[key]) for key in range(300)])


def test_a_small_case_of_keys(tmp_path: Path) -> None:
    """All figures of real processes; one of them is killed. Every key has its sum, or the case would fail."""
    keys = 60_000
    figures = measured(keyed_cases.many("f", "small", tmp_path, f"embedded:{tmp_path / 'bus'}", keys), 1)
    found = {figure.name: figure.median for figure in figures}
    assert set(keyed_cases.UNITS) <= set(found)
    assert all(value > 0 for value in found.values())
    # Seven numbers and five digits at least; a record of each key and a little more, as every key has changed once.
    assert 7 * 8 + 5 <= found[keyed_cases.TOPIC] <= 200


def test_keys_without_their_sums_fail_the_case(tmp_path: Path) -> None:
    """The dict of fewer events is refused, as is a posterior topic that has no keys at all."""
    url, work = f"embedded:{tmp_path}", Keyed(1_000, 100)
    mine = keyed.prepare(tmp_path, url, work)
    assert keyed.held(mine, work).keys == 100
    with pytest.raises(Failed, match="the dict"):
        keyed.held(mine, Keyed(1_001, 100))
    with open_bus(url) as bus, pytest.raises(Failed, match="100 of 100 keys do not have"):
        keyed.read(bus, mine, work)


def test_delays_of_blocks_of_draws() -> None:
    """Two chains: a snapshot has a block if it goes as far in its segment, or is of a newer one."""
    written = [
        Block(0, 0, 10, 1.0),
        Block(0, 0, 20, 2.0),
        Block(1, 0, 10, 1.5),
        Block(1, 1, 10, 4.0),
        Block(0, 0, 30, 9.0),
    ]
    sights = [Sight(3.0, {0: (0, 10), 1: (0, 10)}), Sight(5.0, {0: (0, 20), 1: (1, 10)})]
    every, newest = delays(written, sights)
    assert every == [2.0, 3.0, 1.5, 1.0]
    assert newest == [1.5, 1.0]
    with pytest.raises(Failed, match="none of 5 blocks"):
        delays(written, [])


def test_files_are_loaded_whole_by_everyone(tmp_path: Path) -> None:
    """Each outcome is checked against the sum of squares; another one fails."""
    loading = Loading(tmp_path, 3_000)
    url = f"embedded:{tmp_path / 'bus'}"
    runs = [(loading_contenders.PLAIN, "json"), (loading_contenders.WITHOUT, "rows")]
    assert all(loading.run(label, form, url).events == 3_000 for label, form in runs)
    file = next(tmp_path.glob("load-*.csv"))
    header, rows = file.read_text().split("\n", 1)
    file.write_text(f"{header}\n{rows.replace('1', '2')}")
    with pytest.raises(Failed, match="of 3000 events whose sum of y² is"):
        loading.run(*runs[0], url)
