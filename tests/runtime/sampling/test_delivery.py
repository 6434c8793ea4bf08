"""Junk on the topics of chains, other numbers of chains, and a master that remembers nothing."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.tables.draws import sampled
from streaminfer.wire.sampled import sampler_states
from tests.runtime.sampling.sampler_rig import SamplerRig, coin

COINS = [{"y": int(i % 3 == 0)} for i in range(30)]
JUNK = b"not a record of ours"


def drawn(rig: SamplerRig, n_units: int) -> list[np.ndarray]:
    return [rig.values(unit) for unit in range(n_units)]


def complete(rig: SamplerRig) -> bool:
    return sampled(rig.snapshot()).shown.complete


def test_a_process_with_several_chains_draws_what_several_processes_draw() -> None:
    alone, shared = (SamplerRig(coin(chains=3)) for _ in range(2))
    for rig, n_samplers in ((alone, 1), (shared, 3)):
        rig.publish(COINS)
        rig.run(rig.master(), *(rig.sampler() for _ in range(n_samplers)))
        assert complete(rig)
    for one, other in zip(drawn(alone, 3), drawn(shared, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_master_is_restored_from_the_log_alone() -> None:
    rig = SamplerRig(coin(chains=2))
    rig.publish(COINS)
    first, sampler = rig.master(), rig.sampler()
    rig.run(first, sampler)
    before = rig.snapshot()
    first.close()
    rig.broker.compact(names.topic(rig.spec, "draws"))
    rig.publish(COINS)
    rig.run(rig.master(), sampler)
    after = rig.snapshot()
    assert after.n_events == 2 * before.n_events
    assert after.version > before.version
    assert sampled(after).shown.segment == 1
    assert complete(rig)


@pytest.mark.parametrize("short", ["draws", "sampler-state", "posterior"])
@pytest.mark.parametrize("key", [b"junk", b"part-0", b"0/0/0", b"manifest"])
def test_junk_is_ignored(short: str, key: bytes) -> None:
    """It comes in the middle of a segment, and everybody starts again after it."""
    rig, calm = SamplerRig(coin(chains=2, draws=40)), SamplerRig(coin(chains=2, draws=40))
    for each in (rig, calm):
        each.publish(COINS)
    calm.run(calm.master(), calm.sampler())
    master, sampler = rig.master(), rig.sampler()
    rig.run(master, sampler, rounds=7)
    rig.bus.publish([Output(names.topic(rig.spec, short), JUNK, key, 0)])
    rig.run(master, sampler, rounds=2)
    master.close()
    sampler.close()
    rig.run(rig.master(), rig.sampler())
    assert complete(rig)
    for one, other in zip(drawn(rig, 2), drawn(calm, 2), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_of_a_newer_version_ends_the_sampler() -> None:
    rig = SamplerRig(coin())
    rig.publish(COINS)
    newer = b"\x00" + (9_999_999).to_bytes(4, "big") + b"rest"
    rig.bus.publish([Output(names.topic(rig.spec, "sampler-state"), newer, sampler_states.HEAD_KEY, 0)])
    with pytest.raises(Fatal, match="newer version"):
        rig.run(rig.master(), rig.sampler())


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 1)])
@pytest.mark.parametrize("subposteriors", [1, 2])
def test_chains_come_and_go(before: int, after: int, subposteriors: int) -> None:
    """Those that stay keep their draws; new ones begin with the newest segment."""
    spec = coin(2, chains=before, subposteriors=subposteriors)
    rig = SamplerRig(spec)
    for partition in range(2):
        rig.publish(COINS, partition)
    services = rig.master(), rig.sampler()
    rig.run(*services)
    for service in services:
        service.close()
    kept = drawn(rig, subposteriors * min(before, after))
    rig.spec = coin(2, chains=after, subposteriors=subposteriors)
    names.create_topics(rig.spec, rig.bus)
    mark = IdleMark(rig.spec, rig.bus)
    assert mark.reached(rig.snapshot()) == (after <= before)
    services = rig.master(), rig.sampler()
    rig.run(*services)
    assert mark.reached(rig.snapshot())
    for one, other in zip(kept, drawn(rig, len(kept)), strict=True):
        np.testing.assert_array_equal(one, other)
    for partition in range(2):
        rig.publish(COINS, partition)
    rig.run(*services, rounds=120)  # combining takes questions and answers
    shown = sampled(rig.snapshot()).shown
    assert [part.segment for part in shown.subposteriors] == [1] * subposteriors
    assert shown.complete
    assert len(shown.chains) == after * subposteriors


@pytest.mark.parametrize(("short", "key"), [("draws", b"0/0/0"), ("sampler-state", b"part-0")])
@pytest.mark.parametrize("rounds", [7, 40], ids=["in the middle", "complete"])
def test_junk_in_the_place_of_a_record_of_a_chain_cuts_its_segment(short: str, key: bytes, rounds: int) -> None:
    """Compaction has removed the good record, so that state and draws no longer belong together."""
    rig = SamplerRig(coin(chains=2, draws=40))
    rig.publish(COINS)
    services = rig.master(), rig.sampler()
    rig.run(*services, rounds=rounds)
    for service in services:
        service.close()
    topic = names.topic(rig.spec, short)
    rig.bus.publish([Output(topic, JUNK, key, 0)])
    rig.broker.compact(topic)
    rig.run(rig.master(), rig.sampler())
    shown = sampled(rig.snapshot()).shown
    assert (shown.segment, shown.complete, shown.cut) == (1, True, True)
    assert rig.snapshot().n_events == len(COINS)


STREAM = {"method": "sgld", "source": "stream", "minibatch": 4, "draws": 6, "warmup": 2, "thin": 1}
PLACES = [("sampler-state", b"part-0"), ("draws", b"0/1/0"), ("draws", b"0/2/0")]


@pytest.mark.parametrize(("short", "key"), PLACES)
def test_junk_in_the_place_of_a_record_of_a_stream_begins_its_next_segment(short: str, key: bytes) -> None:
    """No event counts twice or not at all, and no dead letter is written twice."""
    rig = SamplerRig(coin(**STREAM, step={"size": 0.05}))
    rig.publish([*COINS, {"y": "bad"}, *COINS, *COINS[:3]])
    sampler = rig.sampler()
    rig.run(sampler)
    sampler.close()
    before, topic = rig.draws()[-1], names.topic(rig.spec, short)
    assert (before.segment, before.frontier[0].end) == (2, 64)
    rig.bus.publish([Output(topic, JUNK, key, 0)])
    rig.broker.compact(topic)
    rig.publish([*COINS, {"y": "worse"}, *COINS, *COINS[:3]])
    services = rig.sampler(), rig.master()
    rig.run(*services)
    after = rig.draws()[-1]
    assert after.segment > before.segment
    assert (after.frontier[0].end, after.n_events, after.n_dead_lettered) == (128, 126, 2)
    letters = [record.key for record in rig.records("dead-letters")]
    assert len(letters) == 2 + (short == "draws"), "the junk is one too, where a master reads it"
    assert complete(rig)
    assert rig.snapshot().n_events == 126


def test_a_stream_that_lost_its_state_warms_up_again_also_if_it_is_killed_meanwhile() -> None:
    drawn = []
    for kill in (False, True):
        rig = SamplerRig(coin(**STREAM | {"warmup": 5}, step={"size": 0.05}))
        rig.publish(COINS[:20])
        sampler = rig.sampler()
        rig.run(sampler)
        sampler.close()
        rig.bus.publish([Output(names.topic(rig.spec, "sampler-state"), JUNK, b"part-0", 0)])
        rig.broker.compact(names.topic(rig.spec, "sampler-state"))
        for i in range(0, 40, 8):
            rig.publish([{"y": 1}] * 8)
            sampler = rig.sampler() if kill or i == 0 else sampler
            rig.run(sampler)
            if kill:
                sampler.close()
        drawn.append([block for block in rig.draws() if block.segment == 1])
    for blocks in drawn:
        assert sum(len(block.weights) for block in blocks) == 5
        assert blocks[-1].end == 10
    one, other = (np.concatenate([block.values for block in blocks]) for blocks in drawn)
    np.testing.assert_array_equal(one, other)
