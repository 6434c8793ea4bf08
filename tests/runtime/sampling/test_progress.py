"""Whoever waits for a sampler sees how far its set-up is."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from streaminfer.bus.protocol import Partition, Position
from streaminfer.runtime import names
from streaminfer.runtime.reading import span_events
from streaminfer.runtime.supervising import chains
from streaminfer.runtime.supervising.chains import Chains
from streaminfer.wire.avro import DECLARED
from tests.runtime.sampling.rig import LOGISTIC, SamplerRig, sampled

RNG = np.random.default_rng(5)
EVENTS = [{"a": float(a), "b": float(b), "t": int(a + e > b)} for a, b, e in RNG.normal(size=(400, 3))]


def test_the_set_up_of_a_segment_is_told_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_events, "MOST_RECORDS", 100)
    monkeypatch.setattr(chains, "LOOK_S", 0.0)
    rig = SamplerRig(sampled(LOGISTIC, method="sgld", chains=1), tick=0.1)
    rig.send(*EVENTS)
    services, seen = (rig.master(), rig.sampler()), list[str]()
    with closing(Chains(rig.spec, rig.settings, rig.bus, DECLARED)) as watched:
        for _ in range(300):
            rig.run(*services, rounds=1, seconds=1.0)
            watched.poll()
            seen.append(watched.said(rig.newest()))
            if seen[-1].endswith("are done"):
                break
    said = list(dict.fromkeys(seen))
    assert said[-1] == "segment 0: 1 chain are done"
    reading = [each for each in said if "reading" in each]
    assert reading
    assert all(each.startswith("segment 0: 1 chain set up, reading ") for each in reading)
    assert all(each.endswith("00 of 400 positions") for each in reading)
    modes = [each for each in said if "towards the mode" in each]
    noises = [each for each in said if "the noise of gradients" in each]
    assert modes
    assert noises
    places = [seen.index(each[0]) for each in (reading, modes, noises)]
    assert places == sorted(places)
    assert [at.note for at in rig.bus.committed(names.sampler_group(rig.spec)).values()] == [""]


def noted(rig: SamplerRig, note: str) -> str:
    """What is shown of a segment that is fixed, if somebody left a note."""
    rig.send(*EVENTS)
    rig.run(rig.master(), rounds=6)
    place = Partition(names.topic(rig.spec, "sampler-state"), 0)
    with rig.bus.writer("x") as writer:
        writer.commit([], {place: Position(0, note)}, names.sampler_group(rig.spec))
    with closing(Chains(rig.spec, rig.settings, rig.bus, DECLARED)) as watched:
        return watched.said(rig.newest())


def test_a_note_of_anybody_cannot_take_over_the_terminal() -> None:
    said = noted(SamplerRig(sampled(chains=1)), "\x1b[2J\r\n" + "x" * 3000)
    assert said == "segment 0: 1 chain set up, [2J" + "x" * (chains.MOST - 6)


def test_without_a_note_there_is_still_a_line() -> None:
    assert noted(SamplerRig(sampled(chains=1)), "") == "segment 0: 1 chain read events and find their start"
