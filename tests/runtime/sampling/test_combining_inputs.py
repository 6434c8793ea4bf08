"""Draws that cannot be combined, on a bus that all can write to: nothing wrong is published, and they are counted."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.combining.questions import LOG_LIKELIHOOD, Answer
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.tables.draws import segment_of
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.sampled import answers as wire_answers
from streaminfer.wire.sampled import draws as wire
from streaminfer.wire.snapshots import OtherSpec
from tests.runtime.sampling.rig import LINEAR, POISSON, sampled
from tests.runtime.sampling.stopping_rig import StoppingRig
from tests.simulation.bus import SimulatedBus

RNG = np.random.default_rng(22)
ROWS: list[dict[str, Any]] = [
    {"k": int(k), "a": float(a), "b": float(b), "t": float(a - 2 * b + e)}
    for k, (a, b, e) in zip(RNG.poisson(3, 160), RNG.normal(size=(160, 3)), strict=True)
]
J = 2


class CombiningRig(StoppingRig):
    """Two subposteriors of two chains, whose averages take every draw once: no random number is in them."""

    def __init__(self, model: dict[str, Any] = POISSON, **changes: Any) -> None:
        how = {"correct": "none", "window": 800, "missing_seconds": 2, **changes}
        super().__init__(model, ROWS, J, how)

    def put(self, key: bytes, value: bytes, unit: int) -> None:
        """As anybody can write to a topic."""
        self.bus.publish([Output(names.topic(self.spec, "draws"), value, key, unit)])

    def complete(self) -> dict[str, Any]:
        """What is published when all draws are there."""
        for _ in range(200):
            self.run(*self.all, rounds=1)
            if self.newest() is not None and self.shown.complete:
                return self.seen().to_json()
        raise AssertionError("it is never complete")

    def put_draws(self, j: int, values: Matrix) -> None:
        """Draws in the name of chains that do nothing, as their whole segment."""
        newest = self.newest()
        assert newest is not None
        segment = segment_of(newest, j)
        assert segment is not None
        for chain in range(2):
            part = values[chain::2]
            n = len(part)
            made = Draws(
                self.spec.fingerprint, j, chain, 0, "done", 0, n, 1, 0.0, 0.0, part, np.ones(n), np.empty(0),
                self.draws()[0].counters, segment.size, 0, 0, segment.spans,
            )  # fmt: skip
            unit = j + chain * J
            for key, data in wire.encode(made, unit, 0, 1 << 20):
                self.put(key, data, unit)


def changed(rig: CombiningRig, **fields: Any) -> bytes:
    """A record of draws of unit 0, with something else in it; numbers are given as an array."""
    records = [DECLARED.decode("draws", each.value) for each in rig.records("draws") if each.value]
    value = next(each for each in records if each["n_draws"] > 1)
    for name in ("values", "weights"):
        value[name] = np.frombuffer(value[name], dtype="<f8")
    value |= {name: of(value) for name, of in fields.items()}
    for name in ("values", "weights"):
        value[name] = np.asarray(value[name], dtype="<f8").tobytes()
    return DECLARED.encode("draws", value)


BAD = {
    "another fingerprint": {"fingerprint": lambda _: "0123456789abcdef"},
    "a number too few": {"values": lambda value: value["values"][:-1]},
    "a number too many": {"values": lambda value: np.append(value["values"], 1.0)},
    "not a number": {"values": lambda value: np.append(value["values"][1:], np.nan)},
    "infinite": {"values": lambda value: np.append(value["values"][1:], np.inf)},
    "a weight below 0": {"weights": lambda value: np.append(value["weights"][1:], -1.0)},
    "another subposterior": {"subposterior": lambda _: 1},
}


def test_records_that_are_no_draws_of_this_spec_are_counted_and_change_nothing() -> None:
    peaceful = CombiningRig().complete()
    rig = CombiningRig()
    rig.run_to_draws()
    for i, fields in enumerate(BAD.values()):
        rig.put(f"0/0/{9000 + i}".encode(), changed(rig, **fields), 0)
    rig.put(b"no key", b"no draws", 2)
    found = rig.complete()
    assert found["parameters"] == peaceful["parameters"]
    assert found["sampling"]["subposteriors"] == peaceful["sampling"]["subposteriors"]
    assert (found["n_events"], peaceful["n_dropped"]) == (len(ROWS), 0)
    assert found["n_dropped"] == len(BAD) + 1
    letters = [each for each in rig.records("dead-letters") if each.value is not None]
    assert len(letters) == len(BAD) + 1

    rig.all[0].close()
    rig.all[0] = rig.master()  # it reads all of them again
    rig.run(*rig.all, rounds=20)
    assert rig.seen().to_json()["n_dropped"] == len(BAD) + 1


def test_a_reader_holds_what_it_could_not_read_until_its_next_poll() -> None:
    """Others than the combiner never look at it, and anybody can write to a topic."""
    rig = CombiningRig()
    size = flat.size(rig.spec.target.shapes)
    with closing(DrawsReader(rig.spec, rig.settings, size, rig.bus, DECLARED)) as reader:
        rig.put(b"no key", b"no draws", 0)
        assert reader.poll(0.0) == []
        assert [record.value for record, _ in reader.bad] == [b"no draws"]
        assert reader.poll(0.0) == []
        assert reader.bad == []


def test_draws_that_are_repeated_are_dropped() -> None:
    peaceful = CombiningRig().complete()
    rig = CombiningRig()
    rig.run_to_draws()
    first = rig.records("draws")[0]
    assert first.key is not None
    assert first.value is not None
    rig.put(first.key, first.value, 0)
    found = rig.complete()
    assert found["parameters"] == peaceful["parameters"]
    assert found["n_dropped"] == 1

    rig.all[0].close()
    rig.all[0] = rig.master()
    rig.send(*ROWS[:80])  # so that there is a new version
    rig.run(*rig.all, rounds=20)
    assert rig.seen().n_events == 240
    assert rig.seen().to_json()["n_dropped"] == 1


class _Early(CombiningRig):
    """Answers are there before the question, in the name of those who should answer."""

    def answer(self, segment: int, n: int) -> None:
        value = Answer("0" * 32, LOG_LIKELIHOOD, 1, segment, np.zeros(n), 80)
        for key, data in wire_answers.encode(value, self.spec.fingerprint, 1 << 20, DECLARED):
            self.bus.publish([Output(names.topic(self.spec, "answers"), data, key, 1)])


def test_answers_that_nobody_asked_for_are_counted_and_change_nothing() -> None:
    peaceful = _Early(correct="importance").complete()
    rig = _Early(correct="importance")
    rig.service.stopped = frozenset({0, 1})
    rig.run(*rig.all, rounds=6)  # the combiner is there, and nothing to combine
    rig.answer(0, 10_000)
    rig.answer(7, 10)
    rig.service.stopped = frozenset()
    found = rig.complete()
    assert found["sampling"]["combined"]["corrected"]
    for name, of in peaceful["parameters"].items():  # another round, other proposals: 5.5 standard errors of each
        away = abs(of["mean"] - found["parameters"][name]["mean"])
        assert away < 5.5 * of["sd"] * np.sqrt(2 / 5000)
    rig.run(*rig.all, rounds=4)
    assert (peaceful["n_dropped"], rig.seen().to_json()["n_dropped"]) == (0, 2)


def singular() -> Matrix:
    """Two weights that are one, of (weights, noise variance)."""
    values = RNG.normal(size=(800, 4))
    return np.column_stack([values[:, 0], values[:, 1], values[:, 1], np.exp(values[:, 3])])


def still() -> Matrix:
    """A weight that does not move."""
    values = RNG.normal(size=(800, 4))
    return np.column_stack([values[:, 0], np.full(800, 0.25), values[:, 2], np.exp(values[:, 3])])


def poor() -> Matrix:
    """A slow walk."""
    values = np.repeat(np.cumsum(RNG.normal(size=(400, 4)), axis=0), 2, axis=0)
    return np.column_stack([values[:, :3], np.exp(values[:, 3] / 50)])


CASES = {
    "singular": (singular, "the covariance is singular: the draws lie in fewer dimensions than they have numbers"),
    "still": (still, "the covariance is singular: coordinate 1 does not move"),
    "poor": (poor, "its draws are worth "),
}


def stopped(case: str, **combine: Any) -> CombiningRig:
    rig = CombiningRig(LINEAR, correct="importance", **combine)
    rig.service.stopped = frozenset({1})
    rig.run(*rig.all, rounds=12)
    rig.put_draws(1, CASES[case][0]())
    rig.run(*rig.all, rounds=30)
    return rig


@pytest.mark.parametrize("case", CASES)
def test_draws_without_a_use_count_as_missing(case: str) -> None:
    rig = stopped(case)
    told = rig.seen().to_json()["sampling"]["subposteriors"]
    assert rig.shown.combined is None
    assert rig.seen().n_events == 0
    assert told[0]["why"] == ""
    assert told[1]["why"].startswith(CASES[case][1])


@pytest.mark.parametrize("case", CASES)
def test_draws_without_a_use_can_be_left_out(case: str) -> None:
    rig = stopped(case, missing="leave_out")
    shown = rig.shown
    assert shown.combined is not None
    assert [each.left_out for each in shown.subposteriors] == [False, True]
    assert shown.subposteriors[1].why.startswith(CASES[case][1])
    assert rig.seen().n_events == len(ROWS[0::J])
    assert sorted(rig.seen().frontier) == ["demo.events-0"]
    assert np.isfinite(rig.seen().mean["weights"]).all()


def test_another_number_of_subposteriors_on_the_same_bus_is_an_error() -> None:
    rig = CombiningRig()
    rig.complete()
    before = [each.value for each in rig.records("posterior")]
    for service in rig.all:
        service.close()
    options = {"method": "gibbs", "chains": 2, "draws": 400, "combine": "average"}
    other = sampled(POISSON, {"partitions": J}, subposteriors=1, **options)
    master = PoolingMaster(other, SimulatedBus(rig.broker), rig.clock, rig._master_metrics, wall=rig.clock)
    with pytest.raises(OtherSpec, match=r"inference\.subposteriors is 2 in that spec and 1 in this one"):
        rig.run(master, rounds=5)
    assert [each.value for each in rig.records("posterior")] == before
