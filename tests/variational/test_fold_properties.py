"""Whatever order and repetition increments come in, the posterior is that of the batch."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.variational import fold
from streaminfer.variational.base import prior
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import svb
from tests.made import changed
from tests.variational.guarded import change

MODEL = Poisson("k")
PRIOR = prior(MODEL)


def _increments(partition: int, counts: list[int], cuts: list[int]) -> list[Increment]:
    """A partition's events, each a power of two so that a sum tells them apart, in minibatches cut at `cuts`."""
    ends = sorted({*(cut % len(counts) for cut in cuts), len(counts)} - {0}) if counts else []
    found, begin = [], 0
    for end in ends:
        events = np.array(counts[begin:end], dtype=np.float64)[:, None]
        step = svb.step(MODEL, PRIOR, events)
        found.append(
            change(0.0, partition=partition, begin=begin, end=end, n_events=end - begin, statistics=step.statistics)
        )
        begin = end
    return found


@settings(max_examples=300, deadline=None, database=None)
@given(st.data())
def test_any_schedule_gives_the_batch(data: st.DataObject) -> None:
    partitions = data.draw(st.integers(1, 3))
    share = [data.draw(st.integers(0, 10), label="events") for _ in range(partitions)]
    powers = iter(range(sum(share)))
    counts = [[2 ** next(powers) for _ in range(n)] for n in share]
    # Two workers may have cut the same partition at different places; both their increments are around.
    available = [
        increment
        for p in range(partitions)
        for _ in range(2)
        for increment in _increments(p, counts[p], data.draw(st.lists(st.integers(0, 10), max_size=3)))
    ]
    schedule = data.draw(st.lists(st.sampled_from(available), max_size=40)) if available else []
    snapshot = changed(fold.start(MODEL, "f"), positions=dict.fromkeys(range(partitions), 0))
    dropped = 0
    for increment in schedule:
        snapshot, outcome = fold.add(MODEL, snapshot, increment, 0)
        dropped += not outcome.moved
        below = [count for p in range(partitions) for count in counts[p][: snapshot.frontier.positions[p]]]
        assert snapshot.payload.statistics[0] == sum(below)
        assert snapshot.n_events == len(below) == sum(snapshot.frontier.positions.values())
    assert snapshot.counts.n_dropped == dropped
    for increment in sorted(available * 2, key=lambda i: i.provenance.begin):
        snapshot, _ = fold.add(MODEL, snapshot, increment, 0)
    complete = all(snapshot.frontier.positions[p] == share[p] for p in range(partitions))
    if complete:
        every = np.array([count for each in counts for count in each], dtype=np.float64)[:, None]
        assert snapshot.payload.statistics[0] == every.sum()
        assert snapshot.payload.statistics[1] == len(every)
        assert snapshot.n_events == len(every)


@settings(max_examples=200, deadline=None, database=None)
@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=6))
def test_replays_from_the_frontier_complete_it(order: list[int], repeated: list[int]) -> None:
    """Drop what does not fit, then send everything again in order: each event is there once."""
    increments = _increments(0, [2**i for i in range(6)], [1, 2, 3, 4, 5])
    snapshot = changed(fold.start(MODEL, "f"), positions={0: 0})
    for i in [*order, *repeated, *range(6), *repeated]:
        snapshot, _ = fold.add(MODEL, snapshot, increments[i], 0)
    assert snapshot.payload.statistics[:2].tolist() == [63.0, 6.0]
    assert (snapshot.n_events, snapshot.frontier.positions) == (6, {0: 6})
    assert snapshot.counts.n_dropped == len(order) + 2 * len(repeated) + 6 - 6
