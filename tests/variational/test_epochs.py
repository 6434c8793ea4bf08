"""Several passes: the frontier is (epoch, position), every pass sees the same events, and each is counted once."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer import fit
from streaminfer.spec import Drift
from streaminfer.variational import admission, epochs, fold
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import method_of
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed
from tests.variational.guarded import change, standing
from tests.variational.passing import blobs, folded, increment, mixture, started, visits

N = 60


def at(epoch: int, position: int, end: int | None = 10, **fields: object) -> Snapshot:
    known = {"epoch": epoch, "positions": {0: position}, "starts": {0: 0}, "ends": {} if end is None else {0: end}}
    return standing(**{**known, **fields})


@pytest.mark.parametrize(
    ("snapshot", "epoch", "begin", "end", "expected"),
    [
        (at(1, 4), 1, 4, 8, Outcome.FOLDED),
        (at(1, 4), 0, 4, 8, Outcome.BEHIND),
        (at(1, 4), 0, 8, 10, Outcome.BEHIND),
        (at(1, 4), 2, 4, 8, Outcome.AHEAD),
        (at(1, 4), 2, 0, 4, Outcome.AHEAD),
        (at(1, 4), 1, 0, 4, Outcome.BEHIND),
        (at(1, 4), 1, 8, 10, Outcome.AHEAD),
        (at(1, 8), 1, 8, 10, Outcome.FOLDED),
        (at(1, 8), 1, 8, 12, Outcome.AHEAD),
        (at(1, 10), 1, 10, 12, Outcome.AHEAD),
        (at(0, 10), 0, 10, 12, Outcome.AHEAD),
        (at(0, 10, None), 0, 10, 12, Outcome.FOLDED),
        (at(2, 8), 2, 8, 12, Outcome.AHEAD),
        (at(2, 10), 2, 10, 12, Outcome.FOLDED),
    ],
)
def test_where_an_increment_stands_in_three_passes(
    snapshot: Snapshot, epoch: int, begin: int, end: int, expected: Outcome
) -> None:
    assert admission.place(snapshot, change(1.0, epoch=epoch, begin=begin, end=end), 3) is expected


def test_a_pass_turns_when_all_partitions_are_at_its_end() -> None:
    snapshot = at(0, 10, positions={0: 10, 1: 6}, starts={0: 0, 1: 3}, ends={0: 10, 1: 7})
    assert epochs.turned(snapshot, 3) is snapshot
    done = changed(snapshot, positions={0: 10, 1: 7})
    turned = epochs.turned(done, 3)
    assert (turned.frontier.epoch, turned.frontier.positions, turned.frontier.ends) == (1, {0: 0, 1: 3}, {0: 10, 1: 7})
    last = changed(done, epoch=2)
    assert epochs.turned(last, 3) is last
    unfixed = changed(done, ends={})
    assert epochs.turned(unfixed, 3) is unfixed


def test_a_pass_over_nothing_is_no_pass() -> None:
    empty = at(0, 4, starts={0: 4}, ends={0: 4})
    assert epochs.turned(empty, 5).frontier.epoch == 4


def test_a_partition_that_is_new_after_the_ends_were_fixed_waits_for_the_last_pass() -> None:
    snapshot = epochs.met(at(1, 4), {0: 0, 1: 30}, kept=True)
    told = (snapshot.frontier.positions, snapshot.frontier.starts, snapshot.frontier.ends)
    assert told == ({0: 4, 1: 30}, {0: 0, 1: 30}, {0: 10, 1: 30})
    new = change(1.0, partition=1, begin=30, end=31, epoch=1)
    assert admission.place(snapshot, new, 3) is Outcome.AHEAD
    last = epochs.turned(changed(snapshot, positions={0: 10, 1: 30}), 3)
    assert (last.frontier.epoch, last.frontier.positions) == (2, {0: 0, 1: 30})
    assert admission.place(last, changed(new, epoch=2), 3) is Outcome.FOLDED
    assert epochs.counts(last, changed(new, epoch=2))


@pytest.mark.parametrize("method", ["svi", "memoized"])
def test_events_scores_letters_and_losses_are_counted_once(method: str) -> None:
    spec, events = mixture(method, 4, minibatch=16), blobs(N)
    watched, seen = Drift(1e6, 2, None), []
    snapshot, minibatch = started(spec), 16
    for _ in range(4):
        for begin in range(0, N, minibatch):
            end = min(begin + minibatch, N)
            given = increment(spec, snapshot, events, begin, end, n_dead_lettered=1)
            if begin == 0:
                given = changed(given, n_events=0, n_lost=16, n_dead_lettered=0, statistics=spec.model.empty())
            snapshot, outcome = fold.add(spec.model, snapshot, given, snapshot.version, None, watched, spec.inference)
            assert outcome is Outcome.FOLDED
        seen.append((snapshot.n_events, snapshot.counts.score, snapshot.counts.n_dead_lettered, snapshot.counts.n_lost))
        alarms = snapshot.drift
        snapshot = epochs.turned(epochs.fixed(snapshot, {0: N}), 4)
        assert snapshot.drift is alarms
    assert len(set(seen)) == 1
    assert seen[0][0] == N - 16
    assert seen[0][2:] == (3, 16)


@pytest.mark.parametrize("method", ["svi", "memoized"])
def test_events_of_steps_that_did_not_converge_are_those_of_one_pass(method: str) -> None:
    spec, events, seen = mixture(method, 3, minibatch=20), blobs(N), []
    snapshot = started(spec)
    for _ in range(3):
        for begin in range(0, N, 20):
            doubtful = 7 if begin == 20 else 0
            given = increment(spec, snapshot, events, begin, begin + 20, n_unconverged=doubtful)
            snapshot, _ = folded(spec, snapshot, given)
            seen.append(snapshot.counts.n_unconverged)
        snapshot = epochs.turned(epochs.fixed(snapshot, {0: N}), 3)
    assert seen == [0, 7, 7] * 3
    assert snapshot.counts.n_unconverged == 7, "the last pass does not turn"


def test_steps_of_later_passes_stand_for_as_many_events() -> None:
    spec = mixture("svi", 3, minibatch=16, components=2, step={"tau": 0.0, "kappa": 1.0})
    seen = [visit.snapshot for visit in visits(spec, blobs(N))]
    assert [each.payload.n_steps for each in seen] == list(range(1, 13))
    for each in seen[3:]:
        assert each.n_events == N
        total = method_of(spec.inference).published(spec.model, spec.inference, each).reshape(2, -1)[:, 0].sum()
        assert total == pytest.approx(N)


def late(spec_method: str) -> tuple[np.ndarray, np.ndarray]:
    """Natural parameters after two passes, and the same if an increment of the first comes once more in the second."""
    spec, events = mixture(spec_method, 2, minibatch=20), blobs(N)
    found = []
    for repeats in (False, True):
        snapshot, first = started(spec), list[Increment]()
        for epoch in range(2):
            for begin in range(0, N, 20):
                if epoch and repeats:
                    snapshot, _ = folded(spec, snapshot, first[begin // 20])
                given = increment(spec, snapshot, events, begin, begin + 20)
                first += [] if epoch else [given]
                snapshot, _ = folded(spec, snapshot, given)
            snapshot = epochs.turned(epochs.fixed(snapshot, {0: N}), 2)
        found.append(
            spec.model.posterior(method_of(spec.inference).published(spec.model, spec.inference, snapshot)).natural
        )
    return found[0], found[1]


@pytest.mark.parametrize("method", ["svi", "memoized"])
def test_an_increment_of_an_earlier_pass_changes_nothing(method: str) -> None:
    assert np.array_equal(*late(method))


@pytest.mark.parametrize("method", ["svi", "memoized"])
def test_a_fold_that_does_not_look_at_the_epoch_is_found(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = admission.place
    monkeypatch.setattr(admission, "place", lambda s, i, n=1: real(s, changed(i, epoch=s.frontier.epoch), n))
    assert not np.allclose(*late(method))


@pytest.mark.parametrize("method", ["svi", "memoized"])
@pytest.mark.parametrize("n_epochs", [1, 3])
def test_fit_passes_over_the_rows_as_often(method: str, n_epochs: int) -> None:
    spec, events = mixture(method, n_epochs, minibatch=16), blobs(N)
    found = fit(spec, ({"u": u, "v": v} for u, v in events.tolist()))
    expected = [visit.snapshot for visit in visits(spec, events)][-1]
    assert (found.n_events, found.snapshot.frontier.epoch) == (N, n_epochs - 1)
    want = spec.model.posterior(method_of(spec.inference).published(spec.model, spec.inference, expected)).natural
    assert np.array_equal(found.posterior.natural, want)
    assert fit(spec, []).n_events == 0
