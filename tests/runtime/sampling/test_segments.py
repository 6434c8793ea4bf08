"""From one segment to the next: every method goes on, and topics stop growing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer.runtime import names
from tests.runtime.sampling.rig import LOGISTIC, SamplerRig, sampled

RNG = np.random.default_rng(1)
EVENTS = [{"a": float(a), "b": float(b), "t": int(a + e > b)} for a, b, e in RNG.normal(size=(400, 3))]
WAYS: list[dict[str, Any]] = [
    {"method": "mh"},
    {"method": "mala"},
    {"method": "subsampled_mh", "minibatch": 8, "test": {"rule": "t"}},
    {"method": "gibbs"},
    {"method": "gibbs", "scan": "random"},
    {"method": "sgld"},
    {"method": "sgld", "precondition": "rms", "control_variates": False, "step": {"size": 1.0}},
    {"method": "sghmc"},
    {"method": "sghmc", "precondition": "rms", "control_variates": False, "step": {"size": 0.5}},
    {"method": "sgnht"},
    {"method": "flymc"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join([way["method"], *list(way)[1:]]))
def test_every_method_goes_on_from_one_segment_to_the_next(way: dict[str, Any]) -> None:
    rig = SamplerRig(sampled(LOGISTIC, **way))
    sampler, master = rig.sampler(), rig.master()
    rig.send(*EVENTS[:150])
    rig.run_to(0, sampler, master)
    rig.send(*EVENTS[150:])
    found = rig.run_to(1, sampler, master)
    assert found.n_events == 400
    assert np.isfinite(rig.seen().mean["weights"]).all()


def test_two_segments_of_draws_and_one_state_are_all_that_stays(scratch_folder: Path) -> None:
    rig = SamplerRig(sampled(LOGISTIC))
    sampler, master = rig.sampler(), rig.master()
    kept = []
    for number in range(5):
        rig.send(*EVENTS[:50] * 2**number)
        rig.run_to(number, sampler, master)
        for short in ("draws", "sampler-state", "posterior"):
            rig.broker.compact(names.topic(rig.spec, short))
        live = {short: sum(r.value is not None for r in rig.records(short)) for short in ("draws", "sampler-state")}
        kept.append({**live, "posterior": len(rig.records("posterior"))})
    assert kept[2] == kept[3] == kept[4]
    assert {int(record.key.split(b"/")[1]) for record in rig.records("draws") if record.key and record.value} == {3, 4}
    assert len(list(scratch_folder.glob("*/*.rows"))) == 1
