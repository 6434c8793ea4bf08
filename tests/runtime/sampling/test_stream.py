"""source: stream. A step for each minibatch as it arrives; positions and chain are one state on the bus."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Partition, Position
from streaminfer.models.targets.passing import PassingEvents
from streaminfer.runtime import names
from streaminfer.runtime.api import missing
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import setting_up
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.units import Span
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED
from tests.runtime.sampling.sampler_rig import SamplerRig, coin

STREAM: dict[str, Any] = {
    "method": "sgld", "source": "stream", "minibatch": 4, "draws": 6, "warmup": 4, "thin": 2, "step": {"size": 0.05},
}  # fmt: skip


def coins(n: int, seed: int = 0) -> list[Any]:
    return [{"y": int(y)} for y in np.random.default_rng(seed).random(n) < 0.3]


def expected(spec: Spec, events: list[Any], unit: int = 0) -> np.ndarray:
    """The draws of a chain that was never killed, by the pure code alone: segment after segment."""
    settings, target = spec.sampling, spec.target
    assert settings is not None
    assert settings.minibatch is not None
    size, found, segment, chain = settings.minibatch, [], 0, None
    for end in range(size, len(events) + 1, size):
        rows = np.array([[float(each["y"])] for each in events[end - size : end]])
        density = PassingEvents(target, target.rows(rows), 1.0, settings.population or end)
        setup = setting_up.of_stream(settings, segment == 0)
        prepared = Prepared(density, settings, Key(settings.seed, "steps", unit, segment), setup)
        if chain is None:
            chain = chains.begin(prepared, None)
        chain, drawn = chains.advance(prepared, chain)
        found.append(drawn.values)
        if chain.done:
            segment += 1
            chain = chain._replace(phase="draws", step=0, block=0, n_drawn=0)
    return np.concatenate(found)


@pytest.mark.parametrize("method", ["sgld", "sghmc", "sgnht"])
@pytest.mark.parametrize("precondition", ["rms", "none"])
def test_a_chain_takes_a_step_for_each_minibatch(method: str, precondition: str) -> None:
    rig = SamplerRig(coin(**{**STREAM, "method": method, "precondition": precondition}))
    events = coins(4 * 30 + 3)
    rig.publish(events)
    rig.run(rig.sampler())
    last = rig.draws()[-1]
    # 16 steps are the first segment, every 12 another one: 30 = 16 + 12 + 2.
    assert (last.segment, last.end, last.frontier) == (2, 2, (Span(0, 0, 120),))
    assert last.n_events == 120
    held = [block for block in rig.draws() if block.segment >= 1]
    np.testing.assert_array_equal(np.concatenate([b.values for b in held]), expected(rig.spec, events)[6:])


def test_a_chain_that_is_replaced_at_any_time_makes_the_same_draws() -> None:
    rig = SamplerRig(coin(**{**STREAM, "draws": 50}))
    events = coins(4 * 80)
    for begin in range(0, len(events), 32):
        rig.publish(events[begin : begin + 32])
        sampler = rig.sampler()
        rig.run(sampler, rounds=6)
        if begin % 64:
            sampler.close()
        else:
            rig.clock.advance(60)  # killed: its session ends
    rig.run(rig.sampler())
    np.testing.assert_array_equal(rig.values(), expected(rig.spec, events))


def test_a_chain_that_is_replaced_between_two_segments_makes_the_same_draws() -> None:
    rig = SamplerRig(coin(**STREAM))
    events = coins(4 * 40)
    for begin in range(0, len(events), 16):  # segments end after 16, 28 and 40 steps of 4 events
        rig.publish(events[begin : begin + 16])
        sampler = rig.sampler()
        rig.run(sampler, rounds=6)
        sampler.close()
    held = [block for block in rig.draws() if block.segment >= 1]
    np.testing.assert_array_equal(np.concatenate([b.values for b in held]), expected(rig.spec, events)[6:])


def test_partitions_are_taken_in_turn_and_new_ones_are_found() -> None:
    rig = SamplerRig(coin(2, **STREAM))
    for partition in range(2):
        rig.publish(coins(20, partition), partition)
    rig.run(rig.sampler())
    assert rig.draws()[-1].frontier == (Span(0, 0, 20), Span(1, 0, 20))


def test_bad_events_get_one_dead_letter_and_no_step() -> None:
    rig = SamplerRig(coin(**{**STREAM, "chains": 2}))
    rig.publish([*coins(3), {"y": 7}, {"y": "x"}, {}, {"y": 2}, {"y": -1}, *coins(4)])
    rig.run(rig.sampler())
    last = rig.draws()[-1]
    assert (last.n_events, last.n_dead_lettered, last.end) == (7, 5, 2)
    letters = rig.records("dead-letters")
    assert sorted(json.loads(each.value or b"").get("y", None) is None for each in letters) == [False] * 4 + [True]
    assert len(letters) == 5


def test_what_retention_removes_is_counted_and_stepped_over() -> None:
    rig = SamplerRig(coin(**STREAM))
    rig.publish(coins(8))
    first = rig.sampler()
    rig.run(first)
    first.close()
    rig.publish(coins(20))
    rig.bus.delete_before(Partition(names.data_topic(rig.spec), 0), 16)
    rig.run(rig.sampler())
    last = rig.draws()[-1]
    assert (last.n_events, last.n_lost, last.frontier) == (20, 8, (Span(0, 0, 28),))


def test_the_marks_of_until_idle_end_the_last_minibatch() -> None:
    rig = SamplerRig(coin(**STREAM))
    rig.publish(coins(10))
    group = names.until_idle_group(rig.spec)
    with rig.bus.writer(group) as writer:
        writer.commit([], {Partition(names.data_topic(rig.spec), 0): Position(10)}, group)
    rig.run(rig.sampler())
    assert rig.draws()[-1].frontier == (Span(0, 0, 10),)


def test_the_master_shows_segments_and_how_far_all_chains_are() -> None:
    rig = SamplerRig(coin(**{**STREAM, "chains": 2}))
    rig.publish(coins(4 * 30))
    rig.run(rig.sampler(), rig.master())
    found = rig.snapshot()
    assert dict(found.frontier.positions) == {0: 120}
    assert found.n_events == 120
    sampled = found.payload.sampled
    assert sampled is not None
    assert (sampled.shown.segment, sampled.shown.complete, sampled.shown.n_draws) == (1, True, 12)
    values = [block.values for unit in range(2) for block in rig.draws(unit) if block.segment == 1]
    assert found.payload.statistics[1] == pytest.approx(np.concatenate(values).mean(), rel=1e-12)


def test_a_master_that_comes_late_shows_the_newest_segment_that_is_complete() -> None:
    rig = SamplerRig(coin(**STREAM))
    rig.publish(coins(4 * 30))
    rig.run(rig.sampler())
    rig.run(rig.master())
    sampled = rig.snapshot().payload.sampled
    assert sampled is not None
    assert (sampled.shown.segment, sampled.shown.complete) == (1, True)


def test_too_few_events_are_told_with_how_many_are_missing() -> None:
    rig = SamplerRig(coin(**STREAM))
    rig.publish(coins(4 * 3))
    rig.run(rig.sampler(), rig.master())
    said = missing.why(rig.spec, rig.bus, DECLARED) or ""
    assert "have taken 3 of the 16 steps of their segment, one for each 4 events" in said
    assert "the first draw is made after 6 steps: 52 events are missing" in said


def test_draws_of_two_segments_stay_on_the_topic() -> None:
    rig = SamplerRig(coin(**STREAM))
    rig.publish(coins(4 * 100))
    rig.run(rig.sampler(), rounds=60)
    newest: dict[bytes | None, bool] = {}
    for record in rig.records("draws"):
        newest[record.key] = record.value is not None
    live = {int((key or b"").split(b"/")[1]) for key, there in newest.items() if there}
    assert len(live) == 2
