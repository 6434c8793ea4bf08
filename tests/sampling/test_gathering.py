"""Draws as a master gathers them: only what continues a chain counts, and only two segments are held."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.pooled.gathering import Gathering, total
from streaminfer.sampling.pooled.showing import LEAST_EFFECTIVE, Watcher
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.units import Span
from streaminfer.spec import parse_spec
from tests.wire import chain_messages

SIZE = 2


def settings(**inference: Any) -> Any:
    said = {"method": "gibbs", "chains": 2, "draws": 1000, **inference}
    spec = parse_spec({"name": "g", "model": {"kind": "gaussian", "fields": ["x"]}, "inference": said})
    return spec.sampling


def part(chain: int, begin: int, end: int, phase: str = "draws", segment: int = 0, **changes: Any) -> Any:
    """Draws at every step, which have the number of their step in each column."""
    steps = np.arange(begin, end, dtype=np.float64)
    values = changes.pop("values", np.column_stack([steps, steps]))
    n = len(values)
    known = {"values": values, "weights": np.ones(n), "log_density": np.empty(0), "thin": 1, "subposterior": 0}
    return chain_messages.draws(chain=chain, begin=begin, end=end, phase=phase, segment=segment, **{**known, **changes})


def test_draws_count_once_and_in_their_order() -> None:
    gathered = Gathering(settings(), SIZE)
    assert gathered.take(0, part(0, 0, 3))
    assert not gathered.take(0, part(0, 0, 3)), "doubled"
    assert not gathered.take(0, part(0, 5, 6)), "with a gap"
    assert gathered.take(0, part(0, 3, 5, "done"))
    assert not gathered.take(0, part(0, 5, 6)), "after the last"
    np.testing.assert_array_equal(gathered.chains(0, 0)[0].draws[:, 0], np.arange(5))
    assert gathered.n_draws(0, 0) == 5


def test_a_segment_is_complete_when_all_chains_are_done_and_cut_when_one_is() -> None:
    gathered = Gathering(settings(), SIZE)
    gathered.take(0, part(0, 0, 3, "done"))
    assert not gathered.is_complete(0, 0)
    gathered.take(1, part(1, 0, 3, "done"))
    assert gathered.is_complete(0, 0)
    gathered.take(1, part(1, 0, 0, "cut", segment=1))
    assert gathered.is_cut(0, 1)
    assert not gathered.is_cut(0, 0)


def test_two_segments_are_held_and_older_draws_are_refused() -> None:
    gathered = Gathering(settings(), SIZE)
    for segment in range(3):
        assert gathered.take(0, part(0, 0, 2, "done", segment))
    assert gathered.n_draws(0, 0) == 0
    assert gathered.n_draws(0, 1) == 2
    assert not gathered.take(0, part(0, 0, 2, "done", 0))
    assert {unit: number for unit, (number, _) in gathered.newest().items()} == {0: 2, 1: -1}


def test_what_chains_have_done_is_summed() -> None:
    gathered = Gathering(settings(), SIZE)
    for unit in range(2):
        gathered.take(unit, part(unit, 0, 3))
        gathered.take(unit, part(unit, 3, 6))
    assert total(gathered.windows(0, 0)).n_proposed == 2 * chain_messages.COUNTERS.n_proposed


def test_of_chains_along_a_stream_the_slowest_counts() -> None:
    gathered = Gathering(settings(), SIZE)
    gathered.take(0, part(0, 0, 3, segment=1, frontier=(Span(0, 5, 50), Span(1, 0, 30)), n_events=70))
    assert gathered.followed(0) is None, "one chain has nothing yet"
    gathered.take(1, part(1, 0, 2, frontier=(Span(0, 5, 20), Span(1, 0, 40)), n_events=55))
    assert gathered.followed(0) == Segment(0, (Span(0, 5, 20), Span(1, 0, 30)))
    assert gathered.n_followed(0).n_events == 55


def noise(unit: int, n: int) -> Any:
    return Key(0, "test", unit).generator(0).standard_normal((n, SIZE))


def test_an_unfinished_segment_is_shown_from_500_effective_draws_on_by_its_last_half() -> None:
    gathered = Gathering(settings(), SIZE)
    watcher = Watcher(settings(), gathered)
    assert watcher.look(0) is None
    few = {unit: noise(unit, 400) for unit in range(2)}
    for unit in range(2):
        gathered.take(unit, part(unit, 0, 400, values=few[unit]))
    assert watcher.look(0) is None, "the last half of 800 is less than 500"
    more = {unit: noise(unit + 2, 500) for unit in range(2)}
    for unit in range(2):
        gathered.take(unit, part(unit, 400, 900, values=more[unit]))
    found = watcher.look(0)
    assert found is not None
    assert not found.shown.complete
    assert found.shown.n_draws == 900
    assert found.shown.n_effective_draws > LEAST_EFFECTIVE
    last = np.concatenate([more[unit][50:] for unit in range(2)])
    np.testing.assert_allclose(found.statistics[1:3], last.mean(axis=0), rtol=1e-12)
    assert watcher.look(0) is None, "nothing has come since"


@pytest.mark.parametrize("n_draws", [10, 1000])
def test_a_complete_segment_is_shown_with_all_its_draws(n_draws: int) -> None:
    gathered = Gathering(settings(), SIZE)
    watcher = Watcher(settings(), gathered)
    values = {unit: noise(unit, n_draws) for unit in range(2)}
    for unit in range(2):
        gathered.take(unit, part(unit, 0, n_draws, "done", values=values[unit]))
    found = watcher.look(0)
    assert found is not None
    assert found.shown.complete
    assert found.shown.n_draws == 2 * n_draws
    np.testing.assert_allclose(found.statistics[1:3], np.concatenate([*values.values()]).mean(axis=0), rtol=1e-12)
    assert watcher.look(0) is None
