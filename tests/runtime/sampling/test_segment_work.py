"""The rows of a segment: room for them is looked for as soon as it can be known how many there are."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from streaminfer.runtime.reading import span_events
from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.service import Fatal
from streaminfer.wire.events.rows import Table, pack
from tests.runtime.sampling.rig import LINEAR, SamplerRig, sampled


def test_columnar_records_have_more_rows_than_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record here has 1,000 rows: after a tenth of them it is clear that there is no room for all."""
    monkeypatch.setattr(span_events, "MOST_RECORDS", 10)
    rig = SamplerRig(sampled(LINEAR, {"format": "rows"}))
    record = pack(3, Table(("a", "b", "t"), np.random.default_rng(0).normal(size=(1000, 3))))
    rig.send(*[record] * 100)
    size = 8 * 100_000 * rig.spec.target.columns
    free = scratch.RESERVE + size // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    sampler, master = rig.sampler(), rig.master()
    with pytest.raises(Fatal, match=r"the rows of a segment need \d+ MiB more, .* set STREAMINFER_SCRATCH"):
        rig.run(sampler, master, rounds=10)
    assert rig.value("sampler_draws_total") == 0
    sampler.close()


def test_columnar_records_give_all_their_rows() -> None:
    rig = SamplerRig(sampled(LINEAR, {"format": "rows"}))
    rows = np.random.default_rng(0).normal(size=(300, 3))
    rig.send(*(pack(3, Table(("a", "b", "t"), part)) for part in np.split(rows, 3)))
    assert rig.run_to(0, rig.sampler(), rig.master()).n_events == 300
