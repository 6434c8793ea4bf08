"""The alarm: evidence from its definition, a budget that holds, and what must not raise it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from streaminfer.variational.drift import ranks, watching
from streaminfer.variational.drift.ranks import Pool, Share
from streaminfer.variational.drift.watching import DROPS, Scored, State, bet
from streaminfer.variational.methods.svb import LOWEST

BUDGET = 1e7
B = 256


def blocks(scores: Iterable[float], n: int = B, partition: int = 0) -> list[Scored]:
    """Minibatches that are one block each; a score is that of the whole."""
    return [Scored(partition, (i + 1) * n, n, float(score)) for i, score in enumerate(scores)]


def run(stream: Iterable[Scored], block_events: int = B, budget: float = BUDGET) -> tuple[State, list[int]]:
    """The last state, and the number of the minibatch at each alarm."""
    state, alarms, total = State(block_events), [], 0
    for i, scored in enumerate(stream):
        total += scored.n_events
        before, state = state, watching.step(state, scored, budget, total)
        if state.n_alarms > before.n_alarms:
            assert state == State(block_events, n_alarms=before.n_alarms + 1, alarm_at=total), "a start anew"
            alarms.append(i)
    return state, alarms


@pytest.mark.parametrize("drop", DROPS)
def test_a_bet_is_the_mean_of_a_density_and_all_bins_together_give_one(drop: float) -> None:
    u = 0.25 + (np.arange(2000) + 0.5) / 4000
    density = np.exp([-drop * watching._NORMAL.inv_cdf(x) - drop**2 / 2 for x in u])  # N(-drop, 1) over N(0, 1)
    assert bet(Share(0.25, 0.75), drop) == pytest.approx(density.mean(), rel=1e-5)
    assert bet(Share(0.0, 1.0), drop) == 1.0
    for cut in ([0, 1, 2, 3, 32], [0, 7, 9, 30, 31, 32]):
        shares = [Share(a / 32, b / 32) for a, b in pairwise(cut)]
        assert sum(bet(s, drop) * (s.high - s.low) for s in shares) == pytest.approx(1.0, rel=1e-12)
    assert bet(Share(0.0, 1 / 32), drop) > 1 > bet(Share(31 / 32, 1.0), drop), "low ranks pay"


def test_evidence_is_the_sum_over_all_times_at_which_a_change_may_have_been() -> None:
    """Sum over s of n_s times the product of the bets from s on; for each drop, two partitions, blocks of any size."""
    rng = np.random.default_rng(3)
    stream = [Scored(i % 2, i, int(rng.integers(1, 9)), float(rng.normal())) for i in range(600)]
    state, alarms = run(stream, block_events=4, budget=1e300)
    assert alarms == []
    pools: dict[tuple[int, int], Pool] = {}
    opened = {0: (0, 0.0), 1: (0, 0.0)}
    won: list[tuple[int, int, Share]] = []
    for partition, end, n, score in stream:
        total, summed = opened[partition][0] + n, opened[partition][1] + score
        opened[partition] = (0, 0.0) if total >= 4 else (total, summed)
        if total >= 4:
            kind = (partition, total >= 8)
            value = (summed + watching.uniform(partition, end)) / total
            pools[kind], share = ranks.step(pools.get(kind, Pool()), value)
            won += [] if share is None else [(partition, total, share)]
    assert len(won) > 100
    for k, drop in enumerate(DROPS):
        for row, lanes in [(0, {0, 1}), (1, {0}), (2, {1}), (3, set())]:
            own = [(n, bet(share, drop)) for lane, n, share in won if lane in lanes]
            products = np.cumprod([e for _, e in own][::-1])[::-1]
            assert state.evidence[row][k] == pytest.approx(np.dot([n for n, _ in own], products), rel=1e-9)
    mean = np.mean(state.evidence, axis=1)
    assert state.mean_evidence == pytest.approx(mean[0] / 2 + mean[1:].sum() / 2, rel=1e-12)
    assert state.log_evidence == math.log(state.mean_evidence)
    assert State(4).log_evidence == 0.0


STREAMS: dict[str, Callable[[np.random.Generator, int], object]] = {
    "normal": lambda rng, n: rng.normal(size=n) * 20,
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "all equal": lambda rng, n: np.zeros(n),
    "few values": lambda rng, n: -10.0 * rng.integers(0, 3, n),
    "clipped": lambda rng, n: np.where(rng.random(n) < 0.1, LOWEST, -300.0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_alarms_without_drift_stay_in_the_budget(name: str) -> None:
    """At most one in 500 events on average. With restarts the number in 20,000 is at most 40 on average, and no more
    scattered than Poisson's. It is above 40 + 5 sqrt(40) = 71 in one of a million runs."""
    scores = STREAMS[name](np.random.default_rng(7), 20_000)
    assert isinstance(scores, np.ndarray)
    _, alarms = run(blocks(scores, 1), block_events=1, budget=500.0)
    assert 5 <= len(alarms) <= 71, "far fewer alarms than the budget allows would be a detector that sees nothing"


def test_the_mean_of_the_evidence_is_the_number_of_events_compared() -> None:
    """R less the events is a martingale. 400 streams, 20 bets of one event each: five standard errors."""
    rng = np.random.default_rng(11)
    found, n_compared = [], 0
    for _ in range(400):
        state, _ = run(blocks(rng.exponential(size=8 + 31 + 40) * -9, 1), block_events=1, budget=1e300)
        # Only the smaller drops: the mean of the others is from events too rare to see.
        found.append(state.evidence[0][:2])
        n_compared = 40 - 40 // ranks.FIRST_STRIDE
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 20
    assert (np.abs(mean - n_compared) < 5 * error).all(), (mean, error)
    assert (error < 4).all()


@pytest.mark.parametrize(("drop", "most"), [(1.0, 120), (2.0, 20), (4.0, 10), (1e9, 10)])
def test_a_fall_of_the_score_is_found(drop: float, most: int) -> None:
    """In standard deviations of a block's score; a bet of 32 to 1 in each block cannot reach 1e7 events in three."""
    scores = np.random.default_rng(5).normal(size=700) * 11 - 300
    scores[400:] -= drop * 11
    _, alarms = run(blocks(scores))
    assert alarms
    assert 402 < alarms[0] <= 400 + most


def test_what_is_impossible_under_the_model_is_found() -> None:
    scores = np.random.default_rng(5).normal(size=420)
    scores[400:] = LOWEST
    assert len(run(blocks(scores))[1]) == 1


def test_a_rise_of_the_score_is_no_alarm_and_neither_is_what_it_was_before() -> None:
    """A posterior that learns: scores rise by and by, or at once."""
    rng = np.random.default_rng(6)
    noise = rng.normal(size=3000)
    for learning in (np.linspace(0, 50, 3000), -1000 / np.arange(1, 3001), np.where(np.arange(3000) < 900, 0.0, 5.0)):
        state, alarms = run(blocks((noise + learning) * 11))
        assert alarms == []
        assert state.log_evidence < math.log(BUDGET) / 2 + 4


def test_partitions_are_compared_with_their_own_past_in_any_interleaving() -> None:
    """Half of one, all of the other, which is much harder to predict, then the rest."""
    rng = np.random.default_rng(8)
    easy, hard = rng.normal(size=600) * 11, rng.normal(size=300) * 50 - 5000
    first, second = blocks(easy), blocks(hard, partition=1)
    assert run([*first[:300], *second, *first[300:]])[1] == []
    assert run([*first[:300], *blocks(hard), *first[300:]])[1] != [], "in one partition that is drift"


def test_a_partition_that_changes_is_found_among_others() -> None:
    rng = np.random.default_rng(9)
    streams = [blocks(rng.normal(size=300) * 11, partition=p) for p in range(4)]
    streams[2] = blocks(np.where(np.arange(300) < 200, 0, -44) + rng.normal(size=300) * 11, partition=2)
    _, alarms = run([each[i] for i in range(300) for each in streams])
    assert alarms
    assert 800 < alarms[0] < 800 + 4 * 40


def test_more_partitions_than_lanes_share_one() -> None:
    assert run(blocks([0.0] * 5, 1, partition=3), 2)[0].open == run(blocks([0.0] * 5, 1, partition=11), 2)[0].open


def test_sizes_do_not_look_like_drift() -> None:
    """Scores of single events are skewed, so that small blocks have other ranks than large ones."""
    rng = np.random.default_rng(10)
    stream = []
    for i in range(1200):
        n = 64 if i // 300 % 2 == 0 else 64 * 7
        stream.append(Scored(0, i, n, float(-rng.lognormal(0, 2, n).sum())))
    assert run(stream, block_events=64, budget=1e6)[1] == []


def test_minibatches_are_put_together_to_blocks_of_their_partition() -> None:
    scores = [-3.0, -5.0, -7.0, -11.0]
    stream = [Scored(i % 2, i, 3, score) for i, score in enumerate(scores)]
    state, _ = run(stream, block_events=7)
    assert [tuple(block) for block in state.open[:3]] == [(6, -10.0), (6, -16.0), (0, 0.0)]
    state = replace(state, pools={0: Pool(since=0)})
    after = watching.step(state, Scored(0, 9, 1, -1.0), BUDGET, 13)
    assert after.open[0] == (0, 0.0)
    ((kind, pool),) = after.pools.items()
    assert (kind, len(pool.aside)) == (0, 1)
    assert -11 / 7 <= pool.aside[0] < -10 / 7


def test_movements_below_one_nat_in_a_block_are_none() -> None:
    """256 times the same event: what is left of the score is the posterior's slow movement."""
    falling = -1.0 - 1e-6 * np.arange(3000)
    assert run(blocks(falling))[1] == []


def test_the_blur_is_uniform_and_of_the_position_alone() -> None:
    drawn = np.array([watching.uniform(p, i) for p in range(3) for i in range(256, 256 * 4001, 256)])
    assert np.array_equal(drawn[:10], [watching.uniform(0, i) for i in range(256, 256 * 11, 256)])
    assert 0 <= drawn.min() < drawn.max() < 1
    # Kolmogorov's distance of 12,000 uniform numbers is above 2.6 / sqrt(n) in less than 1 of 300,000 cases.
    distance = np.abs(np.sort(drawn) - np.arange(1, 12_001) / 12_000).max()
    assert distance < 2.6 / math.sqrt(12_000)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(12_000)


def test_another_block_size_starts_anew_and_keeps_the_alarms() -> None:
    state, _ = run(blocks(np.r_[np.random.default_rng(1).normal(size=300), np.full(30, -1e9)]))
    assert state.n_alarms == 1
    assert watching.started(state, B) is state
    assert watching.started(state, B + 1) == State(B + 1, n_alarms=1, alarm_at=state.alarm_at)
    assert watching.started(None, 5) == State(5)
