"""Memoized variational inference: the sum is that of the batches, one batch is batch VB, and the bound never falls."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from streaminfer.families import dirichlet
from streaminfer.families.special import xlogy
from streaminfer.models.mixture import elbo
from streaminfer.models.mixture.posterior import MixturePosterior
from streaminfer.models.model import Model, Vector
from streaminfer.variational import epochs, tree
from streaminfer.variational.increment import Pane
from streaminfer.variational.methods import memoized
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.tree import Tree
from tests.made import changed
from tests.variational.passing import Visit, blobs, folded, increment, mixture, started, visits
from tests.variational.tallied import tallied

N = 90


def expected_steps(model: Model, events: np.ndarray, steps: int) -> Vector:
    """Coordinate ascent on all events, a step at a time."""
    statistics = model.empty()
    for _ in range(steps):
        statistics = model.expected(model.posterior(statistics), events)  # type: ignore[attr-defined]
    return statistics


@pytest.mark.parametrize("n_epochs", [1, 2, 7])
def test_one_batch_is_batch_variational_bayes(n_epochs: int) -> None:
    spec, events = mixture("memoized", n_epochs, minibatch=N), blobs(N)
    found = [visit.snapshot for visit in visits(spec, events)][-1]
    assert np.array_equal(found.payload.statistics, expected_steps(spec.model, events, n_epochs))
    assert (found.n_events, found.payload.n_batches) == (N, 1)


def test_one_pass_is_the_first_of_several() -> None:
    """Without `epochs` all is one batch that grows: the sum of what every minibatch says given those before it."""
    events = blobs(70)
    alone = list(visits(mixture("memoized", 1, minibatch=8), events))
    first = list(visits(mixture("memoized", 3, minibatch=8), events))[: len(alone)]
    total = alone[0].snapshot.payload.statistics * 0
    spec = mixture("memoized", 1, minibatch=8)
    for one, other in zip(alone, first, strict=True):
        total = spec.model.merge(total, one.increment.payload.statistics)
        np.testing.assert_allclose(
            one.snapshot.payload.statistics, other.snapshot.payload.statistics, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(one.snapshot.payload.statistics, total, rtol=1e-12, atol=1e-12)
    assert (alone[-1].snapshot.payload.n_batches, first[-1].snapshot.payload.n_batches) == (1, 9)
    assert (alone[-1].snapshot.n_events, alone[-1].snapshot.counts.score) == (70, first[-1].snapshot.counts.score)


def test_many_batches_end_where_batch_variational_bayes_does() -> None:
    """At a fixed point of coordinate ascent, the same one from this start."""
    spec, events = mixture("memoized", 400, minibatch=30, components=2), blobs(N)
    found = [visit.snapshot for visit in visits(spec, events)][-1]
    again = spec.model.expected(spec.model.posterior(found.payload.statistics), events)  # type: ignore[attr-defined]
    np.testing.assert_allclose(found.payload.statistics, again, rtol=1e-6, atol=1e-6)


def check_sums(seen: list[Visit], model: Model) -> None:
    """After every visit: the running sum is the recomputed one, and every event counts once."""
    latest: dict[int, Visit] = {}
    for visit in seen:
        latest[visit.increment.provenance.begin] = visit
        recomputed = reduce(model.merge, [each.increment.payload.statistics for each in latest.values()], model.empty())
        np.testing.assert_allclose(visit.snapshot.payload.statistics, recomputed, rtol=1e-9, atol=1e-9)
        assert visit.snapshot.n_events == sum(each.increment.n_events for each in latest.values())


def test_the_running_sum_is_the_recomputed_sum() -> None:
    spec = mixture("memoized", 5, minibatch=8)
    seen = list(visits(spec, blobs(N)))
    assert len(seen) == 5 * 12
    check_sums(seen, spec.model)


def _kept(model: Model, held: Tree, begin: int, batch: Pane) -> Tree:
    """The mistake: what a batch was before stays in the sum."""
    i = held.find(begin)
    old = Pane(0, model.empty()) if i is None else held.leaf(i)
    both = Pane(old.n_events + batch.n_events, model.merge(old.statistics, batch.statistics))
    return _placed(model, held, begin, both)


_placed = tree.placed


def test_a_visit_that_leaves_the_old_statistics_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "placed", _kept)
    spec = mixture("memoized", 2, minibatch=8)
    with pytest.raises(AssertionError):
        check_sums(list(visits(spec, blobs(N))), spec.model)


def bound(spec_prior: Vector, q: MixturePosterior, shares: dict[int, np.ndarray], events: np.ndarray) -> float:
    """The evidence lower bound with the responsibilities (K, n) that each batch got when it was last visited."""
    log_weights = dirichlet.expected_statistics(q.concentration)
    total = 0.0
    for begin, share in shares.items():
        block = events[begin : begin + share.shape[1]]
        densities = np.array([elbo._log_densities(q, k, block) for k in range(len(share))])
        total += float((share * (densities + log_weights[:, None])).sum() - xlogy(share, share).sum())
    prior = dirichlet.Parameters(spec_prior)
    return total - dirichlet.kl(dirichlet.Parameters(q.concentration), prior) - elbo._divergence(q)


def bounds(minibatch: int, n_epochs: int, components: int, events: np.ndarray) -> np.ndarray:
    """After every visit of the second pass on, when there are responsibilities of all events."""
    spec = mixture("memoized", n_epochs, minibatch, components)
    shares: dict[int, np.ndarray] = {}
    found = []
    for visit in visits(spec, events):
        begin, end = visit.increment.provenance.begin, visit.increment.provenance.end
        if not visit.base.is_prior:  # type: ignore[attr-defined]
            shares[begin] = visit.base.responsibilities(events[begin:end])  # type: ignore[attr-defined]
        if visit.snapshot.frontier.epoch and len(shares) == -(-len(events) // minibatch):
            q = spec.model.posterior(visit.snapshot.payload.statistics)
            found.append(bound(np.array(spec.model.concentration), q, shares, events))  # type: ignore[attr-defined,arg-type]
    return np.array(found)


@pytest.mark.parametrize(("minibatch", "components"), [(7, 3), (30, 3), (13, 8), (90, 3)])
def test_the_bound_never_falls_over_visits(minibatch: int, components: int) -> None:
    found = bounds(minibatch, 12, components, blobs(N))
    assert (np.diff(found) >= -1e-8 * np.abs(found[1:])).all()
    assert found[-1] > found[0]


def test_the_bound_of_the_last_posterior_is_at_least_the_one_that_was_followed() -> None:
    """The model's own bound takes the best responsibilities, so it is not smaller."""
    spec, events = mixture("memoized", 12, 13), blobs(N)
    last = [visit.snapshot for visit in visits(spec, events)][-1]
    own = spec.model.elbo(spec.model.posterior(last.payload.statistics), events)  # type: ignore[attr-defined]
    assert own >= bounds(13, 12, 3, events)[-1] - 1e-9


def test_mutant_visits_let_the_bound_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "placed", _kept)
    found = bounds(13, 4, 3, blobs(N))
    assert (np.diff(found) < -1e-3 * np.abs(found[1:])).any()


SPEC = tallied("memoized", 3)
EVENTS = np.array([[2.0**i] for i in range(20)])


def _passed(n: int) -> Snapshot:
    snapshot = started(SPEC)
    for begin in range(0, n, 4):
        snapshot, outcome = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, begin, min(n, begin + 4)))
        assert outcome is Outcome.FOLDED
    return epochs.turned(epochs.fixed(snapshot, {0: n}), 3)


@pytest.mark.parametrize(
    ("begin", "end", "lost"), [(0, 3, 0), (0, 5, 0), (0, 8, 0), (0, 10, 0), (0, 3, 3), (0, 6, 6), (1, 4, 0), (0, 11, 0)]
)
def test_in_a_later_pass_only_whole_batches_are_taken(begin: int, end: int, lost: int) -> None:
    snapshot = _passed(10)
    given = increment(SPEC, snapshot, EVENTS, begin, end, n_lost=lost, n_events=0 if lost else end - begin)
    after, outcome = folded(SPEC, snapshot, given)
    assert outcome is Outcome.AHEAD
    assert after.counts.n_dropped == snapshot.counts.n_dropped + 1
    assert after.payload.batches is snapshot.payload.batches


@pytest.mark.parametrize("end", [4, 8, 10])
def test_a_batch_that_is_lost_keeps_the_statistics_of_its_last_visit(end: int) -> None:
    snapshot = _passed(10)
    given = increment(SPEC, snapshot, EVENTS, 0, end, n_lost=end, n_events=0, statistics=np.zeros(3))
    after, outcome = folded(SPEC, snapshot, given)
    assert (outcome, after.frontier.positions, after.counts.n_lost, after.n_events) == (Outcome.FOLDED, {0: end}, 0, 10)
    assert after.payload.statistics[0] == 1023


def test_what_comes_after_the_ends_is_one_batch_that_grows() -> None:
    snapshot = _passed(10)
    for epoch in (1, 2):
        for begin, end in [(0, 4), (4, 8), (8, 10)]:
            snapshot, outcome = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, begin, end))
            assert outcome is Outcome.FOLDED
        snapshot = epochs.turned(snapshot, 3)
        assert (snapshot.frontier.epoch, snapshot.n_events, snapshot.payload.statistics[0]) == (2, 10, 1023)
        assert snapshot.frontier.positions == {0: 0 if epoch == 1 else 10}
    for begin, end in [(10, 12), (12, 16), (16, 20)]:
        snapshot, outcome = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, begin, end))
        assert outcome is Outcome.FOLDED
    assert (snapshot.n_events, snapshot.payload.n_batches, snapshot.payload.statistics[0]) == (20, 4, 2.0**20 - 1)
    assert snapshot.payload.batches[0].begins == (0, 4, 8, 10)


def test_what_gives_no_posterior_leaves_its_batch_as_it_was() -> None:
    snapshot = _passed(8)
    given = increment(SPEC, snapshot, EVENTS, 0, 4, statistics=np.array([-1.0, 4.0, 0.0]))
    after, outcome = folded(SPEC, snapshot, given)
    told = (outcome, after.frontier.positions, after.n_events, after.counts.n_rejected)
    assert told == (Outcome.REJECTED, {0: 4}, 8, 0)
    assert after.payload.statistics[0] == 255
    first = started(SPEC)
    rejected, outcome = folded(SPEC, first, changed(given, epoch=0))
    assert (outcome, rejected.n_events, rejected.payload.n_batches) == (Outcome.REJECTED, 0, 1)
    assert rejected.payload.statistics.tolist() == [0.0] * 3


def test_rejected_events_are_counted_once_and_no_more_when_a_later_pass_takes_them() -> None:
    snapshot = started(SPEC)
    bad = {"statistics": np.array([-1.0, 4.0, 0.0])}
    for begin, more in [(0, bad), (4, {})]:
        snapshot, _ = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, begin, begin + 4, **more))
    snapshot = epochs.turned(epochs.fixed(snapshot, {0: 8}), 3)
    assert (snapshot.frontier.epoch, snapshot.n_events, snapshot.counts.n_rejected) == (1, 4, 4)
    again, outcome = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, 0, 4, **bad))
    assert (outcome, again.n_events, again.counts.n_rejected) == (Outcome.REJECTED, 4, 4)
    taken, outcome = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, 0, 4))
    assert (outcome, taken.n_events, taken.counts.n_rejected) == (Outcome.FOLDED, 8, 0)


def test_more_batches_than_a_master_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memoized, "MOST_BATCHES", 2)
    snapshot = _passed(8)
    after, _ = folded(SPEC, snapshot, increment(SPEC, snapshot, EVENTS, 0, 4))
    assert after.payload.n_batches == 2
    with pytest.raises(
        memoized.TooManyBatches, match=r"there are more than 2 batches .* make inference.minibatch larger"
    ):
        _passed(12)
    once = tallied("memoized", 1)
    snapshot = started(once)
    for begin in range(0, 20, 4):
        snapshot, _ = folded(once, snapshot, increment(once, snapshot, EVENTS, begin, begin + 4))
    assert (snapshot.payload.n_batches, snapshot.n_events) == (1, 20)


def test_statistics_of_no_events_are_none() -> None:
    snapshot = started(SPEC)
    given = increment(SPEC, snapshot, EVENTS, 0, 4, n_events=0, n_dead_lettered=4, statistics=np.full(3, -1e3))
    after, outcome = folded(SPEC, snapshot, given)
    assert (outcome, after.n_events, after.payload.statistics.tolist()) == (Outcome.FOLDED, 0, [0.0] * 3)


def test_a_batch_with_fewer_events_than_before_keeps_those_it_had() -> None:
    snapshot = _passed(8)
    given = increment(SPEC, snapshot, EVENTS, 0, 4, n_events=1, n_dead_lettered=3, statistics=np.array([1.0, 1.0, 0.0]))
    after, outcome = folded(SPEC, snapshot, given)
    told = (outcome, after.frontier.positions, after.n_events, after.payload.statistics[0])
    assert told == (Outcome.FOLDED, {0: 4}, 8, 255)


def test_a_large_model_has_fewer_batches() -> None:
    assert memoized.most_batches(SPEC.model) == memoized.MOST_BATCHES
    large = mixture("memoized", 2, 4, components=500).model
    assert memoized.most_batches(large) * large.size * 16 <= memoized.MOST_BYTES
