"""What every conjugate model must satisfy of priors: as sections of a spec, and fitted to many sets of events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from streaminfer.models.options import OptionsError
from tests.contracts.model_harness import every_example, extremes, some_rows
from tests.models.examples import Example, model_of


@every_example
def test_the_prior_is_a_section_of_a_spec_and_back(example: Example) -> None:
    model = model_of(example)
    own = model.prior_options
    assert model.with_prior(json.loads(json.dumps(own))) == model
    assert model.with_prior({}) == model
    assert model.with_prior(dict.fromkeys(own)) == model
    for name, value in own.items():
        other = [2.5 * v + 0.1 for v in value] if isinstance(value, list) else 2.5 * value
        changed = model.with_prior({name: other})
        assert changed.prior_options == {**own, name: other}
        assert (changed.fields, changed.size) == (model.fields, model.size)
        assert changed != model
        for bad in ("x", float("nan"), 1e60, [1.0] * 999):
            with pytest.raises(OptionsError, match=f"prior.{name}"):
                model.with_prior({name: bad})
    with pytest.raises(OptionsError, match=r"prior\.colour"):
        model.with_prior({"colour": 1.0})


def changed_numbers(prior: Mapping[str, Any], factor: float) -> Iterator[dict[str, Any]]:
    """Priors with one number times the factor."""
    for name, value in prior.items():
        if not isinstance(value, list):
            yield {**prior, name: value * factor}
            continue
        for i in range(len(value)):
            yield {**prior, name: [v * factor if i == j else v for j, v in enumerate(value)]}


@every_example
def test_a_pooled_prior_is_a_maximum_of_the_evidence(example: Example) -> None:
    """No number changed by 1% adds more than 0.1, as sets that are all alike reach the bounds of the prior's strength.

    That it is the maximum itself if sets differ is a test of `test_pooling`.
    """
    model = model_of(example)
    rows = some_rows(model, example, 17)
    pooled = model.pooled(rows)
    best, before = (float(m.log_evidences(rows).sum()) for m in (pooled, model))
    assert best > before + 1
    for factor in (0.99, 1.01):
        for prior in changed_numbers(pooled.prior_options, factor):
            assert model.with_prior(prior).log_evidences(rows).sum() <= best + 0.1, prior
    again = pooled.pooled(rows)
    assert best <= again.log_evidences(rows).sum() <= best + 1e-3


@every_example
def test_fewer_than_two_sets_of_events_change_no_prior(example: Example) -> None:
    model = model_of(example)
    one = model.statistics(example.events(np.random.default_rng(18), 30))
    for rows in (np.zeros((0, model.size)), one[None], np.stack([model.empty(), one, model.empty()])):
        assert model.pooled(rows) is model


@every_example
def test_pooling_survives_extreme_events(example: Example) -> None:
    """Warnings are errors in this suite."""
    model = model_of(example)
    large, small = extremes(model)
    ordinary = some_rows(model, example, 19, 8)
    for rows in ([large], [small], [large, small], [np.vstack([large, small, large])], [ordinary]):
        statistics = np.vstack([model.statistics(row) if row is not ordinary else row for row in [*rows, *rows]])
        statistics = np.vstack([statistics, model.scale(ordinary, 2.0**-900)])
        before = model.log_evidences(statistics).sum()
        assert model.pooled(statistics).log_evidences(statistics).sum() >= before
