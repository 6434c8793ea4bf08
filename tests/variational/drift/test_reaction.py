"""What an alarm does to the posterior, against weights worked out event by event."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer import parse_spec
from streaminfer.spec import Spec
from streaminfer.variational import fold
from streaminfer.variational.drift.reaction import Alike, rule_of
from streaminfer.variational.increment import Increment
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed, new_increment

N = 4
"""Events of every minibatch, which is a block."""
HALF_LIFE, LASTS = 10.0, 30


def counts(forget: dict[str, float] | None = None, **drift: Any) -> Spec:
    react = {"half_life_events": HALF_LIFE, "for_events": LASTS}
    given = {"events_per_false_alarm": 1e3, "block_events": N, "react": react, **drift}
    model = {"kind": "poisson", "field": "k"}
    return parse_spec({"name": "demo", "model": model, "inference": {"forget": forget}, "drift": given})


def start(spec: Spec) -> Snapshot:
    return changed(fold.start(spec.model, spec.fingerprint), positions={0: 0, 1: 0})


def increment(spec: Spec, snapshot: Snapshot, partition: int, k: float, score: float) -> Increment:
    """N events of k each, as a worker weighs them."""
    rule = rule_of(spec.inference, spec.drift)
    weights = None if rule is None else rule.weights(N, None)
    at = snapshot.frontier.positions[partition]
    statistics = spec.model.statistics(np.full((N, 1), k), weights)
    return new_increment(partition=partition, begin=at, end=at + N, n_events=N, score=score, statistics=statistics)


def add(spec: Spec, snapshot: Snapshot, change: Increment) -> tuple[Snapshot, Outcome]:
    return fold.add(spec.model, snapshot, change, 0, rule_of(spec.inference, spec.drift), spec.drift)


@pytest.mark.parametrize("forget", [None, {"half_life_events": 50.0}], ids=str)
def test_everything_held_is_halved_for_a_while(forget: dict[str, float] | None) -> None:
    """Weights of events from their definition: by their partition's clock, and by the events of reactions since."""
    spec = counts(forget)
    snapshot = start(spec)
    folded: list[tuple[int, float, np.ndarray]] = []
    lasting = 0
    for i in range(240):
        partition, k = i % 2, float(i)
        before = snapshot
        snapshot, outcome = add(spec, snapshot, increment(spec, snapshot, partition, k, -100.0 - 50.0 * (i > 200)))
        assert outcome is Outcome.FOLDED
        reaction = 0.5 ** (min(N, lasting) / HALF_LIFE)
        lasting = max(0, lasting - N)
        aged = 1.0 if forget is None else 0.5 ** (N / forget["half_life_events"])
        own = np.ones(N) if forget is None else 0.5 ** (np.arange(N - 1, -1, -1) / forget["half_life_events"])
        folded = [(p, v, w * reaction * (aged if p == partition else 1.0)) for p, v, w in folded]
        folded.append((partition, k, own))
        assert snapshot.drift is not None
        if snapshot.drift.n_alarms > (0 if before.drift is None else before.drift.n_alarms):
            assert snapshot.drift.alarm_at == snapshot.n_events
            lasting = LASTS
        weight = sum(float(w.sum()) for _, _, w in folded)
        total = sum(v * float(w.sum()) for _, v, w in folded)
        np.testing.assert_allclose(snapshot.payload.statistics[:2], [total, weight], rtol=1e-12)
        assert snapshot.n_effective == pytest.approx(weight, rel=1e-12)
        natural = spec.model.posterior(snapshot.payload.statistics).natural
        np.testing.assert_allclose(natural, [1 + total, 1 + weight], rtol=1e-12, err_msg="the prior is never scaled")
    assert snapshot.drift is not None
    assert snapshot.drift.n_alarms == 1
    assert lasting == 0, "the reaction has come to its end"


def test_a_report_changes_nothing_of_the_posterior() -> None:
    watched, plain = counts(react="report"), parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
    one, other = start(watched), start(plain)
    for i in range(220):
        change = increment(plain, other, 0, float(i), -100.0 - 50.0 * (i > 190))
        one, _ = add(watched, one, change)
        other, _ = add(plain, other, change)
    assert one.drift is not None
    assert (one.drift.n_alarms, other.drift) == (1, None)
    assert one.payload.statistics.tobytes() == other.payload.statistics.tobytes()
    assert (one.payload.clocks, one.n_effective) == ({}, 880)


def test_rejected_dropped_and_empty_increments_neither_age_nor_count_as_scores() -> None:
    spec = counts()
    snapshot = start(spec)
    for i in range(205):
        snapshot, _ = add(spec, snapshot, increment(spec, snapshot, 0, 3.0, -100.0 - 50.0 * (i > 190)))
    assert snapshot.drift is not None
    assert snapshot.drift.n_alarms == 1
    good = increment(spec, snapshot, 0, 3.0, -150.0)
    empty = changed(good, n_events=0, score=0.0, statistics=spec.model.empty())
    for odd, outcome in [
        (changed(good, statistics=np.array([-1e9, N, 0.0])), Outcome.REJECTED),
        (changed(good, begin=good.provenance.begin + 1), Outcome.AHEAD),
        (empty, Outcome.FOLDED),
    ]:
        after, found = add(spec, snapshot, odd)
        assert found is outcome
        assert after.payload.statistics.tobytes() == snapshot.payload.statistics.tobytes()
        assert after.drift == snapshot.drift


def test_a_spec_that_no_longer_watches_drops_what_was_known() -> None:
    spec = counts(react="report")
    snapshot, _ = add(spec, start(spec), increment(spec, start(spec), 0, 1.0, -1.0))
    assert snapshot.drift is not None
    after, _ = fold.add(spec.model, snapshot, increment(spec, snapshot, 0, 1.0, -1.0), 0)
    assert after.drift is None


def test_clocks_are_kept_only_where_something_may_be_forgotten() -> None:
    reacting, reporting, forgetting = counts(), counts(react="report"), counts({"half_life_events": 5.0})
    assert rule_of(reacting.inference, reacting.drift) == Alike()
    assert rule_of(reporting.inference, reporting.drift) is None
    assert type(rule_of(forgetting.inference, forgetting.drift)).__name__ == "ByEvents"
