"""Schedules of crashes, zombies and lies over several passes: none is left out, and no event counts twice."""

from __future__ import annotations

import pytest

from streaminfer.models.model import Model
from streaminfer.variational import tree
from streaminfer.variational.increment import Pane
from streaminfer.variational.tree import Tree
from tests.simulation.epochs_world import play
from tests.simulation.schedules import schedules, shows_a_bug
from tests.simulation.world import EVENTS

METHODS = ["svi", "memoized"]
SCHEDULES = 25
LONG_SCHEDULES = 2000
FOUND_WITHIN = 40


@schedules(SCHEDULES, LONG_SCHEDULES)
@pytest.mark.parametrize("method", METHODS)
def test_schedules(method: str, seeds: range) -> None:
    found = [play(seed, method) for seed in seeds]
    assert max(each.n_events for each in found) == EVENTS
    assert any(each.counts.n_lost for each in found), "retention never overtook a reader: the schedules are too tame"
    late = [each for each in found if any(each.frontier.positions[p] > end for p, end in each.frontier.ends.items())]
    assert 3 < len(late) < len(seeds), "data came late in all schedules, or in none"


def test_a_visit_that_leaves_the_old_statistics_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tree.placed

    def kept(model: Model, held: Tree, begin: int, batch: Pane) -> Tree:
        i = held.find(begin)
        old = Pane(0, model.empty()) if i is None or begin == held.begins[-1] else held.leaf(i)
        merged = model.merge(old.statistics, batch.statistics)
        return real(model, held, begin, Pane(old.n_events + batch.n_events, merged))

    monkeypatch.setattr(tree, "placed", kept)
    shows_a_bug(lambda seed: play(seed, "memoized"), FOUND_WITHIN, "counted twice")
