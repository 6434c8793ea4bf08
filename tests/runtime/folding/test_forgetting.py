"""The services forget as defined: bad events age nothing, poisoned times are refused, restarts change nothing."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from streaminfer import PosteriorSnapshot, RowError, fit, parse_spec
from streaminfer.bus.protocol import Output
from streaminfer.cli.snapshot import print_summary
from streaminfer.models.times import AHEAD_S
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.loading.files import Counted, FileError, read_csv
from streaminfer.spec import Spec
from streaminfer.variational.forgetting.decay import Clock
from tests.faults import answers
from tests.faults.forgotten import by_events, by_time
from tests.made import changed, new_snapshot
from tests.models.examples import EXAMPLES, Example
from tests.runtime.api.test_fit import _rows
from tests.runtime.rig import Rig
from tests.variational.guarded import change

NOW = 1_700_000_000


def counts(forget: dict[str, float], partitions: int = 1, timestamp: str | None = None, **inference: Any) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": partitions, "timestamp": timestamp},
            "model": {"kind": "poisson", "field": "k"},
            "inference": {"minibatch": 4, "linger_ms": 5, "snapshot_ms": 1, "forget": forget, **inference},
        }
    )


def send(rig: Rig, *events: object, at: float = NOW, partition: int = 0) -> None:
    """Events with a record's timestamp in seconds; bytes go as they are."""
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        rig.bus.publish([Output(rig.topic("events"), data, partition=partition, timestamp=round(at * 1000))])


def reasons(rig: Rig) -> list[str]:
    return [letter.reason for letter in list(Pending(rig.spec, rig.bus))]


def test_each_partition_ages_by_its_own_good_events() -> None:
    rig = Rig(counts({"half_life_events": 2}, partitions=2))
    for k in (1, 10, 100, 1000, 10_000, 100_000):
        send(rig, {"k": k}, b"no event")
    send(rig, {"k": 7}, partition=1)
    rig.run(rig.worker(), rig.master(), rounds=30)
    found = rig.snapshot()
    weights = 2.0 ** -(np.arange(5, -1, -1) / 2)
    assert found.payload.statistics[0] == pytest.approx(weights @ 10.0 ** np.arange(6) + 7, rel=1e-12)
    assert found.n_effective == pytest.approx(weights.sum() + 1, rel=1e-12)
    assert (found.n_events, found.counts.n_dead_lettered, found.counts.n_rejected) == (7, 6, 0)


@pytest.mark.parametrize("timestamp", [None, "at"])
def test_by_time_late_events_count_little_whoever_brings_them(timestamp: str | None) -> None:
    rig = Rig(counts({"half_life_seconds": 10}, partitions=2, timestamp=timestamp))
    ages = {0: (30, 0, 20), 1: (5, 10_000, 1e9)}
    for partition, each in ages.items():
        for i, age in enumerate(each):
            at = NOW if timestamp else NOW - age
            send(rig, {"k": 10 ** (3 * partition + i), "at": NOW - age}, at=at, partition=partition)
    rig.run(rig.worker("a"), rig.worker("b"), rig.master(), rounds=30)
    found = rig.snapshot()
    expected = 0.125 * 1 + 10 + 0.25 * 100 + 2**-0.5 * 1000 + 2**-1000.0 * 10**4
    assert found.payload.statistics[0] == pytest.approx(expected, rel=1e-12)
    assert found.n_effective == pytest.approx(0.125 + 1 + 0.25 + 2**-0.5, rel=1e-12)
    assert found.payload.clocks[0].newest == NOW
    assert found.n_events == 6


def test_an_event_of_the_far_future_is_a_dead_letter_and_erases_nothing() -> None:
    rig = Rig(counts({"half_life_seconds": 10}, timestamp="at"))
    ahead = [AHEAD_S + 0.001, 1e8, 253_402_300_799.0 - NOW]
    send(rig, {"k": 1, "at": NOW}, *({"k": 5, "at": NOW + s} for s in ahead), {"k": 2, "at": "2023-11-14T22:13:20Z"})
    send(rig, {"k": 5, "at": "9999-12-31T23:59:59Z"}, {"k": 5, "at": "soon"}, {"k": 5}, {"k": "x", "at": NOW})
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=30)
    found = rig.snapshot()
    told = (found.payload.statistics[0], found.n_effective, found.n_events, found.counts.n_dead_lettered)
    assert told == (3.0, 2.0, 2, 7)
    late = "timestamp (from at): must not be more than 3600 seconds after the record's timestamp"
    assert [reason == late for reason in reasons(rig)] == [True] * 4 + [False] * 3
    send(rig, {"k": 7, "at": NOW + AHEAD_S})
    rig.run(worker, master, rounds=30)
    assert rig.total() == pytest.approx(7 + 3 * 2**-360.0), "an hour ahead is believed"


def test_a_record_without_a_timestamp_cannot_be_dated() -> None:
    for timestamp in (None, "at"):
        rig = Rig(counts({"half_life_seconds": 10}, timestamp=timestamp))
        send(rig, {"k": 1, "at": NOW}, at=-0.001)
        send(rig, {"k": 2, "at": NOW}, at=NOW)
        rig.run(rig.worker(), rig.master(), rounds=30)
        assert (rig.total(), rig.snapshot().counts.n_dead_lettered) == (2.0, 1)
        assert reasons(rig) == ["the record's timestamp must be of the years 1970 to 9999"]


def test_a_snapshot_with_a_clock_that_no_events_give_is_none() -> None:
    rig = Rig(counts({"half_life_events": 3}, partitions=2))
    total, part = np.array([3.0, 3.0, 0.0]), np.array([2.0, 2.0, 0.0])
    good = new_snapshot(
        fingerprint=rig.spec.fingerprint,
        version=1,
        statistics=total,
        positions={0: 0, 1: 0},
        clocks={0: Clock(part, 2.0), 1: Clock(total, 1.0)},
    )
    rig.publish_snapshot(good)
    follower = Follower(rig.spec, rig.bus)
    assert follower.catch_up() is not None
    rig.publish_snapshot(changed(good, version=2, clocks={0: Clock(part, 2.0), 1: Clock(-part, 1.0)}))
    found = follower.catch_up()
    assert found is not None
    assert found.version == 1
    assert follower.unreadable is not None


@pytest.mark.parametrize("forget", [{"half_life_events": 3}, {"half_life_seconds": 40}], ids=str)
def test_a_master_that_is_restored_goes_on_with_the_clocks(forget: dict[str, float]) -> None:
    """One rig goes through; in the other, all services are replaced after every few events."""
    totals = []
    for lives in (1, 7):
        rig = Rig(counts(forget, partitions=2))
        worker, master = rig.worker("w0"), rig.master()
        for i in range(21):
            send(rig, {"k": i * i}, at=NOW + 5 * i, partition=i % 2)
            if i % (21 // lives) == 0:
                rig.run(worker, master, rounds=5)
                worker.close()
                master.close()
                worker, master = rig.worker(f"w{i}"), rig.master()
        rig.run(worker, master, rounds=30)
        assert rig.snapshot().n_events == 21
        totals.append([*rig.snapshot().payload.statistics, rig.snapshot().n_effective])
    np.testing.assert_allclose(totals[0], totals[1], rtol=1e-12)


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
@pytest.mark.parametrize("minibatch", [1, 7, 1000])
def test_fit_forgets_in_the_order_of_rows(example: Example, minibatch: int) -> None:
    events = example.events(np.random.default_rng(5), 100)
    document: dict[str, Any] = {"name": "demo", "model": {"kind": example.kind, **example.options}}
    by_events = parse_spec({**document, "inference": {"minibatch": minibatch, "forget": {"half_life_events": 9}}})
    by_time = parse_spec(
        {
            **document,
            "data": {"timestamp": "t.at"},
            "inference": {"minibatch": minibatch, "forget": {"half_life_seconds": 9}},
        }
    )
    rows = [{**row, "t": {"at": NOW + i}} for i, row in enumerate(_rows(example, events))]
    weights = 2.0 ** -(np.arange(99, -1, -1) / 9)
    model = by_events.model
    expected = model.posterior(model.statistics(events, weights))
    for spec in (by_events, by_time):
        found = fit(spec, rows)
        np.testing.assert_allclose(found.posterior.natural, expected.natural, rtol=1e-9)
        assert found.n_effective == found.to_json()["n_effective"] == pytest.approx(weights.sum(), rel=1e-12)
        assert found.to_json()["exactness"] == "exact"
    with pytest.raises(RowError, match=r"row 100: timestamp \(from t.at\): t is missing"):
        fit(by_time, [*rows, _rows(example, events[:1])[0]])
    assert np.isfinite(found.log_predictive(_rows(example, events[:1])[0])), "a prediction needs no time"


FAR = {"gaussian": {"centre": 1e7}, "linear_regression": {"centre": 1e7}}
CASES = [*((model, {}) for model in answers.MODELS), *FAR.items()]


@pytest.mark.parametrize(("model", "options"), CASES, ids=str)
def test_fit_equals_the_answer_in_fifty_digits(model: str, options: dict[str, float]) -> None:
    n = 400
    for case, inference in (by_events(model, n, 1, 40, **options), by_time(model, n, 40, **options)):
        spec = parse_spec(
            {
                "name": "demo",
                "data": {"timestamp": case.timestamp},
                "model": case.model,
                "inference": {"minibatch": 30, **inference},
            }
        )
        lines = [",".join(map(str, row)) for row in (case.header, *case.rows)]
        rows = read_csv(spec, Counted(io.BytesIO("\n".join(lines).encode()), "f"), "f")
        case.check(fit(spec, map(json.loads, rows)).to_json())


def test_the_summary_says_what_the_events_are_worth(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(fit(counts({"half_life_events": 1}), [{"k": 1}] * 50))
    assert capsys.readouterr().out.splitlines()[1].startswith("50 events, worth 2 by their weights; ")


def test_metrics_tell_the_effective_events() -> None:
    rig = Rig(counts({"half_life_events": 1}))
    send(rig, {"k": 1}, {"k": 1}, {"k": 1})
    rig.run(rig.worker(), rig.master(), rounds=30)
    assert (rig.value("master_events"), rig.value("master_effective_events")) == (3.0, 1.75)


def test_fit_by_time_needs_to_know_the_times() -> None:
    with pytest.raises(ValueError, match=r"inference.forget: half_life_seconds .* data.timestamp"):
        fit(counts({"half_life_seconds": 1}), [{"k": 1}])


def test_a_csv_file_must_have_the_column_of_the_time() -> None:
    spec = counts({"half_life_seconds": 1}, timestamp="at")

    def read(text: str) -> list[bytes]:
        return list(read_csv(spec, Counted(io.BytesIO(text.encode()), "f"), "f"))

    assert read("k,at\n1,2024-05-01T12:00:00Z\n2,17.5\n") == [
        b'{"k":1,"at":"2024-05-01T12:00:00Z"}', b'{"k":2,"at":17.5}',
    ]  # fmt: skip
    with pytest.raises(FileError, match="has no column 'at'"):
        read("k,ta\n1,2\n")


UNEVEN = (
    "partitions fill unevenly: 0 is at 21 and 1 at 10. By half_life_events each counts by itself, so events of the "
    "slow one keep their weight for longer; half_life_seconds counts by time"
)


def uneven_rig(forget: dict[str, float], counted: tuple[int, ...], more: int = 0) -> Rig:
    rig = Rig(counts(forget, partitions=3))
    for partition, n in enumerate(counted):
        send(rig, *[{"k": 1}] * n, partition=partition)
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=40)
    send(rig, *[{"k": 1}] * more)
    rig.run(worker, master, rounds=20 if more else 0)
    return rig


def test_uneven_partitions_are_told_once_and_the_remedy_with_them(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = uneven_rig({"half_life_events": 20}, (21, 10, 0))
    print_summary(PosteriorSnapshot(rig.spec, rig.snapshot()))
    assert capsys.readouterr().out.splitlines()[2] == f"{UNEVEN}."
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [f"demo.events: {UNEVEN}"]
    caplog.clear()
    uneven_rig({"half_life_events": 20}, (21, 10, 0), more=50)
    assert sum("unevenly" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.parametrize(
    ("forget", "counted"),
    [
        ({"half_life_events": 20}, (20, 10, 10)),
        ({"half_life_events": 30}, (29, 1, 1)),
        ({"half_life_events": 20}, (40, 0, 0)),
        ({"half_life_seconds": 20}, (40, 1, 1)),
    ],
)
def test_partitions_that_are_even_or_young_are_not_told(
    forget: dict[str, float], counted: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    uneven_rig(forget, counted)
    assert not [each for each in caplog.records if "unevenly" in each.getMessage()]


def test_a_partition_that_is_only_behind_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(counts({"half_life_events": 4}, partitions=2))
    for partition in (0, 1):
        send(rig, *[{"k": 1}] * 40, partition=partition)
    master = rig.master()
    rig.run(master, rounds=2)
    for partition, begin in [(1, 0), *((0, begin) for begin in range(0, 40, 4))]:
        increment = change(0.0, begin=begin, end=begin + 4, n_events=4, topic="demo.events", partition=partition)
        held = np.array([4.0, 4.0, 0.0])
        rig.publish(changed(increment, statistics=held, fingerprint=rig.spec.fingerprint))
        rig.run(master, rounds=2)
    assert rig.snapshot().frontier.positions == {0: 40, 1: 4}
    assert not [each for each in caplog.records if "unevenly" in each.getMessage()]
