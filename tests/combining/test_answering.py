"""Answers are what the model's own densities say of all rows, whatever the blocks, and the same when repeated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.combining import answering, refining
from streaminfer.combining.answering import CannotAnswer, answer
from streaminfer.combining.questions import KINDS, Asked, Question
from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.units import Span
from streaminfer.spec import Spec, parse_spec

SHARES = (Asked(0, 3, (Span(0, 0, 9),)), Asked(1, 2, (Span(1, 0, 700),)))
MODELS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic_regression", "features": ["a", "b"], "target": "y"},
    "linear": {"kind": "linear_regression", "features": ["a", "b"], "target": "y"},
    "gaussian": {"kind": "gaussian", "fields": ["a", "b"]},
    "poisson": {"kind": "poisson", "field": "k"},
    "mixture": {"kind": "gaussian_mixture", "fields": ["a"], "components": 2},
}


def spec_of(model: str) -> Spec:
    return parse_spec({"name": "demo", "model": MODELS[model], "inference": {"method": "mh"}})


def rows_of(spec: Spec, n: int = 700) -> Matrix:
    rng = np.random.default_rng(5)
    columns = {"number": rng.normal(size=n), "count": rng.poisson(3.0, n), "binary": rng.integers(0, 2, n)}
    events = [columns[each.kind] + (each.kind == "number") * rng.normal(size=n) for each in spec.event_fields]
    return np.ascontiguousarray(spec.target.rows(np.column_stack(events).astype(float)))


def question(kind: str, target: Any, n: int = 600, **changes: Any) -> Question:
    rng = np.random.default_rng(6)
    theta = target.guess(np.empty((0, target.columns))) + 0.3 * rng.normal(size=(n, target.dimension))
    bandwidth = np.full(target.dimension, 0.2) if kind == "refine" else np.empty(0)
    return Question(**{"kind": kind, "theta": theta, "shares": SHARES, "bandwidth": bandwidth, "seed": 4, **changes})


@pytest.mark.parametrize("model", MODELS)
def test_log_likelihoods_are_sums_over_rows(model: str) -> None:
    spec = spec_of(model)
    rows, asked = rows_of(spec), question("log_likelihood", spec.target)
    found = answer(spec.target, rows, asked, 1, 2)
    wanted = [spec.target.log_likelihood(theta[None], rows).sum() for theta in asked.theta]
    np.testing.assert_allclose(found.values, wanted, rtol=1e-12)
    assert (found.question, found.kind, found.subposterior) == (asked.id, "log_likelihood", 1)
    assert (found.segment, found.n_events) == (2, 700)
    assert found.fits(asked)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_those_of_the_log_likelihood(model: str) -> None:
    spec = spec_of(model)
    rows, asked = rows_of(spec), question("gradient", spec.target, 300)
    found = answer(spec.target, rows, asked, 1, 2)
    scale = np.abs(found.values).max()
    np.testing.assert_allclose(found.values, spec.target.gradient(asked.theta, rows), rtol=1e-9, atol=1e-11 * scale)
    step = 1e-5
    for each in range(spec.target.dimension):
        moved = np.array([asked.theta[0]] * 2)
        moved[:, each] += (step, -step)
        up, down = spec.target.log_likelihood(moved, rows).sum(axis=1)
        assert found.values[0, each] == pytest.approx((up - down) / (2 * step), abs=1e-5 * scale)


@pytest.mark.parametrize("kind", ["log_likelihood", "gradient"])
@pytest.mark.parametrize("numbers", [1, 1000, 1 << 30])
def test_blocks_do_not_matter(kind: str, numbers: int) -> None:
    target = spec_of("logistic").target
    rows, asked = rows_of(spec_of("logistic"), 200), question(kind, target, 20)
    wanted = answer(target, rows, asked, 1, 2).values
    found = answer(target, rows, asked, 1, 2, numbers).values
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_question_gives_the_same_bits(kind: str) -> None:
    target = spec_of("logistic").target
    rows, asked = rows_of(spec_of("logistic"), 200), question(kind, target)
    again = question(kind, target, theta=np.asfortranarray(asked.theta))
    assert again.id == asked.id
    wanted = answer(target, rows, asked, 1, 2).values
    np.testing.assert_array_equal(answer(target, rows.copy(), again, 1, 2).values, wanted)


def test_what_is_computed_at_once_is_small() -> None:
    """No array over vectors and rows is larger than the bound."""
    target, seen = spec_of("logistic").target, list[int]()

    class Watched:
        columns, dimension = target.columns, target.dimension

        def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
            seen.append(len(theta) * len(rows))
            return np.asarray(target.log_likelihood(theta, rows))

    rows = np.tile(rows_of(spec_of("logistic")), (10, 1))
    answer(Watched(), rows, question("log_likelihood", target), 1, 2)
    assert max(seen) <= 1 << 18
    assert sum(seen) == 600 * len(rows)


def test_what_float64_cannot_hold_is_finite_and_hopeless() -> None:
    target = spec_of("poisson").target
    rows, theta = rows_of(spec_of("poisson")), np.array([[1.0], [800.0], [1e300]])
    found = answer(target, rows, question("log_likelihood", target, theta=theta), 1, 2).values
    assert found[1:].tolist() == [-answering.LARGEST] * 2
    slopes = answer(target, rows, question("gradient", target, theta=theta), 1, 2).values
    assert slopes[1:].tolist() == [[-answering.LARGEST]] * 2
    assert np.isfinite([found, slopes[:, 0]]).all()


class Line:
    """y ~ N(theta, C) with d parameters and a prior N(0, P^-1): everything has a closed form."""

    columns = dimension = 2
    precision = np.array([[2.0, 0.8], [0.8, 1.0]])
    prior = np.array([0.5, 3.0])

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        away = rows[None] - theta[:, None]
        return np.asarray(-0.5 * np.einsum("kni,ij,knj->kn", away, self.precision, away))

    def gradient(self, theta: Matrix, rows: Matrix) -> Matrix:
        return np.asarray((rows.sum(axis=0) - len(rows) * theta) @ self.precision)

    def log_prior(self, theta: Matrix) -> Vector:
        return np.asarray(-0.5 * theta**2 @ self.prior)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return -theta * self.prior


class Walking(Line):
    """The same without gradients."""

    gradient = property()  # type: ignore[assignment]


@pytest.mark.parametrize("target", [Line(), Walking()], ids=["langevin", "random walk"])
@pytest.mark.parametrize("bandwidth", [(0.05, 0.1), (0.5, 0.2), (5.0, 8.0)], ids=str)
def test_refined_draws_have_the_distribution_that_is_asked_for(target: Any, bandwidth: tuple[float, float]) -> None:
    """Means and covariances of xi - E[xi | theta_i], over many i, within 5.5 standard errors."""
    rows, n, j = np.random.default_rng(1).normal([1.0, -2.0], 0.7, (6, 2)), 20_000, 3
    theta = np.random.default_rng(2).normal([0.8, -1.7], 0.3, (n, 2))
    asked = Question("refine", theta, SHARES, np.array(bandwidth), 11, 2)
    found = answer(target, rows, asked, 1, j).values
    near = np.diag(1 / np.square(bandwidth))
    precision = len(rows) * target.precision + np.diag(target.prior) / j + near
    cov = np.linalg.inv(precision)
    means = (rows.sum(axis=0) @ target.precision + theta @ near) @ cov
    left = (found - means) @ np.linalg.cholesky(precision)
    assert np.abs(left.mean(axis=0)).max() < 5.5 / np.sqrt(n)
    assert np.abs(left.T @ left / n - np.eye(2)).max() < 5.5 * np.sqrt(2 / n)


def test_rounds_seeds_and_subposteriors_have_random_numbers_of_their_own() -> None:
    rows, theta = np.zeros((3, 2)), np.zeros((300, 2))
    asked = [Question("refine", theta, SHARES, np.ones(2), seed, r) for seed, r in ((1, 0), (1, 1), (2, 0))]
    found = [answer(Line(), rows, each, j, 2).values for each in asked for j in (0, 1)]
    assert len({each.tobytes() for each in found}) == 6
    chunk = answering.CHUNK
    assert not np.array_equal(found[0][: 300 - chunk], found[0][chunk:])


def test_a_start_of_no_density_is_left() -> None:
    theta = np.full((50, 2), 1e200)
    found = answer(Line(), np.zeros((3, 2)), Question("refine", theta, SHARES, np.ones(2)), 1, 2).values
    assert np.isfinite(found).all()


def test_steps_are_as_wide_as_the_narrower_of_bandwidth_and_posterior() -> None:
    theta = np.random.default_rng(1).normal(0, [1.0, 0.01], (500, 2))
    wide = refining.scales(Question("refine", theta, SHARES, np.full(2, 100.0)), 4)
    np.testing.assert_allclose(wide, 2 * theta.std(axis=0), rtol=1e-3)
    few = refining.scales(Question("refine", theta[:2], SHARES, np.full(2, 100.0)), 4)
    np.testing.assert_array_equal(few, [100, 100])


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_without_events(kind: str) -> None:
    target = spec_of("logistic").target
    found = answer(target, np.empty((0, 3)), question(kind, target, 5), 0, 2)
    assert found.n_events == 0
    assert (found.values == 0).all() == (kind != "refine")


def test_what_cannot_be_answered_is_told() -> None:
    target, rows = spec_of("logistic").target, rows_of(spec_of("logistic"))
    with pytest.raises(CannotAnswer, match="subposterior 5 is not among the shares"):
        answer(target, rows, question("gradient", target), 5, 6)
    with pytest.raises(CannotAnswer, match="has 2 parameters, the model 3"):
        answer(target, rows, Question("gradient", np.zeros((1, 2)), SHARES), 1, 2)
    with pytest.raises(CannotAnswer, match="the model has no gradient"):
        answer(object(), rows, question("gradient", target), 1, 2)


CHANGES: list[dict[str, Any]] = [
    {"kind": "gradient", "bandwidth": np.empty(0)}, {"theta": np.zeros((2, 2))}, {"theta": np.ones((3, 2))},
    {"bandwidth": np.array([1.0, 3.0])}, {"seed": 2}, {"round": 2}, {"shares": SHARES[:1]},
    {"shares": (SHARES[0]._replace(segment=4), SHARES[1])}, {"shares": (SHARES[0], Asked(1, 2, (Span(1, 1, 700),)))},
]  # fmt: skip


def test_an_id_is_of_everything_in_a_question() -> None:
    fields: dict[str, Any] = {
        "kind": "refine", "theta": np.zeros((3, 2)), "shares": SHARES, "bandwidth": np.array([1.0, 2.0]), "seed": 1,
        "round": 1,
    }  # fmt: skip
    ids = [Question(**{**fields, **each}).id for each in ({}, {}, *CHANGES)]
    assert ids[0] == ids[1]
    assert len(set(ids)) == len(ids) - 1
    assert all(len(each) == 32 for each in ids)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "prior"}, "kind must be one of"),
        ({"theta": np.zeros(3)}, "theta must have one row or more"),
        ({"theta": np.zeros((0, 3))}, "theta must have one row or more"),
        ({"bandwidth": np.ones(3)}, "bandwidth must have"),
        ({"kind": "refine"}, "bandwidth must have"),
        ({"shares": SHARES[::-1]}, "shares must be of different"),
        ({"shares": SHARES[:1] * 2}, "shares must be of different"),
    ],
)
def test_questions_that_cannot_be(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Question(**{"kind": "gradient", "theta": np.zeros((1, 3)), "shares": SHARES, **changes})
