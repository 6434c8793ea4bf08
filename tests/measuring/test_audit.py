"""Audits: planted lost and doubled events are found however many events there are, and rounding is not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.measuring import audit
from tests.models.examples import EXAMPLES, Example, model_of

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])


def _folded(model: Any, start: np.ndarray, events: np.ndarray, sizes: int) -> np.ndarray:
    """Events in increments of many sizes, as a master folds them."""
    statistics = start
    for part in np.array_split(events, sizes):
        statistics = model.merge(statistics, model.statistics(part)) if len(part) else statistics
    return statistics


def _audited(model: Any, before: np.ndarray, after: np.ndarray, events: np.ndarray, folds: int, absorbed: int) -> Any:
    segment = audit.Segment(model)
    for part in np.array_split(events, 3):
        segment.add(part)
    found = audit.difference(model, before, after, segment, folds=folds, absorbed=absorbed)
    return found, audit.told(found, segment)


@every_example
@pytest.mark.parametrize("earlier", [0.0, 1e3, 1e6])
def test_what_is_right_passes_and_one_lost_or_doubled_event_is_found(example: Example, earlier: float) -> None:
    """Earlier events are `earlier` times those of a sample of 500; the snapshot says the wrong number as well."""
    model, rng = model_of(example), np.random.default_rng(1)
    before = model.scale(model.statistics(example.events(rng, 500)), earlier) if earlier else model.empty()
    events = example.events(rng, 700)
    right = _folded(model, before, rng.permutation(events), 40)
    found, said = _audited(model, before, right, events, 1000, 700)
    assert said.status == "good", said
    assert found.rounding < 0.01
    for after, absorbed in (
        (_folded(model, before, events[1:], 40), 699),
        (_folded(model, before, np.vstack([events, events[5:6]]), 40), 701),
    ):
        found, said = _audited(model, before, after, events, 1000, absorbed)
        assert said.status == "fail"
        assert "1 event too" in said.sentence
        # Without the count: the statistics alone tell it.
        found, said = _audited(model, before, after, events, 1000, 700)
        assert found.missing == 0
        assert said.status == "fail"
        assert 1e-3 < found.events < 2


@every_example
def test_a_lost_and_a_doubled_event_together_are_found_by_their_terms(example: Example) -> None:
    model, rng = model_of(example), np.random.default_rng(2)
    events = example.events(rng, 700)
    other = next(i for i in range(1, 700) if (events[i] != events[0]).any())
    swapped = np.vstack([events[1:], events[other : other + 1]])
    found, said = _audited(model, model.empty(), _folded(model, model.empty(), swapped, 40), events, 40, 700)
    assert found.missing == 0
    assert said.status == "fail"
    assert "at equal counts" in said.sentence


@every_example
def test_many_folds_of_many_sizes_are_not_a_difference(example: Example) -> None:
    model, rng = model_of(example), np.random.default_rng(3)
    events = example.events(rng, 6000)
    _, said = _audited(model, model.empty(), _folded(model, model.empty(), events, 3000), events, 3000, 6000)
    assert said.status == "good"


def test_weights_of_forgetting_count() -> None:
    example = next(each for each in EXAMPLES if each.name == "line")
    model, rng = model_of(example), np.random.default_rng(4)
    events, earlier = example.events(rng, 400), example.events(rng, 300)
    weights = 0.5 ** (np.arange(400)[::-1] / 50)
    before = model.scale(model.statistics(earlier), 2.0**-8)
    after = before
    for part in np.split(np.arange(400), 10):
        own = weights[part] / weights[part[-1]]
        after = model.merge(after, model.scale(model.statistics(events[part], own), weights[part[-1]]))
    segment = audit.Segment(model)
    segment.add(events[:130], weights[:130])
    segment.add(events[130:], weights[130:])
    segment.add(events[:0])
    found = audit.difference(model, before, after, segment, folds=20, absorbed=400)
    assert audit.told(found, segment).status == "good"
    undecayed = audit.difference(model, model.statistics(earlier), after, segment, folds=20, absorbed=400)
    assert audit.told(undecayed, segment).status == "fail"


def test_nothing_to_audit_and_what_rounding_hides_are_unknown() -> None:
    model = model_of(EXAMPLES[0])
    empty = audit.Segment(model)
    assert audit.told(audit.Difference(0.0, 0.0, 0), empty).status == "unknown"
    some = audit.Segment(model)
    some.add(np.ones((3, 1)))
    assert audit.told(audit.Difference(0.1, 0.7, 0), some).status == "unknown"


def _chains(rng: np.random.Generator, rho: float, n: int = 4000) -> list[np.ndarray]:
    """Two numbers, N(1, 4) and N(0, 1), each a chain of autocorrelation rho."""
    noise = rng.standard_normal((4, n, 2)) * math.sqrt(1 - rho**2)
    found = np.empty((4, n, 2))
    found[:, 0] = rng.standard_normal((4, 2))
    for t in range(1, n):
        found[:, t] = rho * found[:, t - 1] + noise[:, t]
    return list(found * [2.0, 1.0] + [1.0, 0.0])


def test_moments_are_compared_with_a_chain_within_its_error() -> None:
    """z-scores of 60 chains: their own deviation is 1, give or take 5.5 of its errors."""
    rng, z = np.random.default_rng(5), []
    for _ in range(60):
        found = audit.compared(audit.Published(np.array([1.0, 0.5]), np.array([2.0, 2.0])), _chains(rng, 0.6, 1000))
        z.append([*((found.shift - [0, -0.25]) / found.shift_se), *((found.ratio - [1, 0.5]) / found.ratio_se)])
    assert (np.abs(np.mean(z, axis=0)) < 5.5 / math.sqrt(60)).all()
    np.testing.assert_allclose(np.std(z, axis=0), 1, atol=5.5 / math.sqrt(120))


def test_a_wrong_posterior_fails_and_a_right_one_is_good() -> None:
    """Published deviations of 0.7 of the true ones: 95% intervals hold 83%."""
    chains, limits = _chains(np.random.default_rng(6), 0.5), {"watch": 0.92, "fail": 0.85}
    right = audit.compared(audit.Published(np.array([1.0, 0.0]), np.array([2.0, 1.0])), chains)
    said = audit.of_chain(right, ["a", "b"], limits, 16_000, 100, "all")
    assert said.status == "good"
    assert said.remedy == ""
    narrow = audit.compared(audit.Published(np.array([1.0, 0.0]), np.array([2.0, 0.7])), chains)
    said = audit.of_chain(narrow, ["a", "b"], limits, 16_000, 100, "all")
    assert said.status == "fail"
    assert "interval of b holds 83" in said.sentence
    assert said.remedy
    assert narrow.coverage[1] == pytest.approx(math.erf(1.96 * 0.7 / math.sqrt(2)), abs=5.5 * narrow.coverage_se[1])
    few = audit.compared(audit.Published(np.array([1.0, 0.0]), np.array([2.0, 1.0]), n_draws=100), chains)
    assert (few.shift_se > 0.1).all()
    assert [(value.name, value.coordinate) for value in said.values[:3]] == [
        ("shift", "a"),
        ("ratio", "a"),
        ("coverage", "a"),
    ]


def test_chains_that_tell_nothing_are_refused() -> None:
    published = audit.Published(np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="at least 8 draws"):
        audit.compared(published, [np.zeros((3, 1))])
    with pytest.raises(ValueError, match="does not vary"):
        audit.compared(published, [np.zeros((30, 1))])
