"""A million keys: what a master holds of each, how soon one is back, what snapshots cost on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import keyed
from benchmarks.keyed_cases import MILLION, MOST_BYTES, MOST_RESTORE_S
from benchmarks.keyed_workload import Keyed
from streaminfer import connect
from streaminfer.runtime import names
from tests.faults.buses import embedded

KEYS = MILLION


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_million_keys(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """`measure` fails if a key does not have the sum of its counts."""
    url, work = embedded(request, tmp_path), Keyed(KEYS, KEYS)
    mine = keyed.prepare(tmp_path, url, work)
    found = keyed.measure(mine, keyed.empty(tmp_path, url, work), work)
    with connect(url) as connection:
        written = sum(connection.bus.ends(names.topic(mine.spec, "posterior")).values())
        page = connection.keys(mine.spec, after="77", limit=3)
        one = connection.snapshot(mine.spec, key="777777")
    print(f"\n{KEYS:,} keys: {found}, {written / KEYS:.2f} records a key on the posterior topic")
    assert [each.key for each in page] == ["770", "7700", "77000"]
    assert one is not None
    assert (one.n_events, float(one.mean["rate"])) == (1, (1 + 777777 % 5) / 2)
    assert written <= 1.1 * KEYS, "keys that had not changed were written again"
    assert max(found.absorbed, found.restored) <= MOST_BYTES
    assert found.restore_s <= MOST_RESTORE_S
