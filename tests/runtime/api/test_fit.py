"""fit: the posterior of rows at hand is the batch posterior."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import RowError, SpecError, fit, parse_spec
from tests.models.examples import EXAMPLES, Example, model_of

ALL = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])


def _spec(example: Example, minibatch: int = 7) -> Any:
    model = {"kind": example.kind, **example.options}
    return parse_spec({"name": "demo", "model": model, "inference": {"minibatch": minibatch}})


def _rows(example: Example, events: np.ndarray) -> list[dict[str, Any]]:
    fields = model_of(example).fields
    return [
        {f.name: f.categories[int(value)] if f.is_text else value for f, value in zip(fields, event, strict=True)}
        for event in events.tolist()
    ]


@ALL
def test_minibatches_give_the_batch_posterior(example: Example) -> None:
    events = example.events(np.random.default_rng(5), 100)
    spec = _spec(example)
    found = fit(spec, iter(_rows(example, events)))
    batch = spec.model.posterior(spec.model.statistics(events))
    np.testing.assert_allclose(found.posterior.natural, batch.natural, rtol=1e-9)
    for name, moments in batch.moments().items():
        np.testing.assert_allclose(found.mean[name], moments.mean, rtol=1e-9)
        np.testing.assert_allclose(found.sd[name], moments.sd, rtol=1e-9)
    assert (found.n_events, found.version, found.frontier) == (100, 15, {})
    assert found.log_evidence() == pytest.approx(batch.log_evidence(), rel=1e-9)


@ALL
def test_the_score_is_the_evidence_when_every_event_is_scored_before_the_next(example: Example) -> None:
    """The product of one-step predictive densities is the marginal likelihood."""
    events = example.events(np.random.default_rng(6), 12)
    found = fit(_spec(example, minibatch=1), _rows(example, events))
    assert found.snapshot.counts.score == pytest.approx(found.log_evidence(), rel=1e-7)


def test_no_rows_give_the_prior() -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "bernoulli", "field": "y", "prior": {"alpha": 3}}})
    found = fit(spec, [])
    assert found.posterior.natural.tolist() == [3.0, 1.0]
    assert (found.n_events, found.version) == (0, 0)


@pytest.mark.parametrize(
    ("at", "row", "text"),
    [
        (0, {"y": 2}, "row 0: y: must be 0 or 1, or true or false (got 2)"),
        (3, {"y": "yes"}, "row 3: y: must be 0 or 1, or true or false (got 'yes')"),
        (5, {"z": 1}, "row 5: y: is missing"),
        (5, [1], "row 5: an event must be an object with named fields (got a list of 1 value)"),
        (19, {"y": "1"}, "row 19: y: must be 0 or 1, or true or false (got '1')"),
    ],
)
def test_a_bad_row_is_told_by_its_place_among_all(at: int, row: Any, text: str) -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "bernoulli", "field": "y"}, "inference": {"minibatch": 4}})
    rows: list[Any] = [{"y": 1}] * 20
    rows[at] = row
    with pytest.raises(RowError) as caught:
        fit(spec, rows)
    assert str(caught.value) == text


def test_rows_have_the_fields_where_events_have_them() -> None:
    data = {"topic": "clicks", "fields": {"y": "page.clicked"}}
    spec = parse_spec({"name": "demo", "data": data, "model": {"kind": "bernoulli", "field": "y"}})
    found = fit(spec, [{"page": {"clicked": np.int64(1)}}, {"page": {"clicked": 0}, "y": 1}])
    assert found.snapshot.payload.statistics.tolist() == [1, 1]
    assert found.log_predictive({"page": {"clicked": 1}}) == pytest.approx(np.log(0.5))
    with pytest.raises(RowError, match=r"row 0: y \(from page.clicked\): must be 0 or 1, or true or false \(got 7\)"):
        fit(spec, [{"page": {"clicked": 7}, "y": 1}])


def test_a_spec_may_be_a_path_or_a_mapping(tmp_path: Path) -> None:
    said = {"name": "coin", "model": {"kind": "bernoulli", "field": "y"}}
    path = tmp_path / "coin.yaml"
    path.write_text(json.dumps(said))
    rows = [{"y": 1}, {"y": 0}, {"y": 1}]
    for given in (parse_spec(said), path, str(path), said):
        assert fit(given, rows).mean["p"] == pytest.approx(3 / 5)


def test_what_is_no_spec_is_refused_with_what_would_be() -> None:
    with pytest.raises(TypeError, match=r"spec: must be a Spec, the path of a spec file, or a mapping .* \(got int\)"):
        fit(3, [])  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=r"absent\.yaml: \(file\): cannot be read"):
        fit("absent.yaml", [])
