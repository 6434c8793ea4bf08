"""Numbers by name, as linear functions of theta."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streaminfer.measuring import functions, score_regression, whitening
from streaminfer.measuring.functions import NoSuchNumber
from streaminfer.measuring.whitening import Whitening

LABELS: dict[str, Any] = {"weights": ("intercept", "sqm"), "cov": (("a", "b"), ("a", "b"))}


def target() -> Any:
    """Weights as they are, a variance by its log, and the probabilities of three things by two log odds."""

    def constrain(theta: np.ndarray) -> dict[str, np.ndarray]:
        odds = np.exp(np.column_stack([theta[:, 3:], np.zeros(len(theta))]))
        return {
            "weights": theta[:, :2],
            "noise_variance": np.exp(theta[:, 2]),
            "p": odds / odds.sum(axis=1, keepdims=True),
        }

    return SimpleNamespace(shapes={"weights": (2,), "noise_variance": (), "p": (3,)}, constrain=constrain)


def test_names_and_gradients() -> None:
    place = Whitening(np.array([1.0, -2.0, 0.5, 0.3, -0.4]), np.diag([1.0, 1e-3, 0.1, 0.5, 0.5]))
    found = functions.of(target(), LABELS, place)
    assert found.names == ("weights[intercept]", "weights[sqm]", "noise_variance", "p[0]", "p[1]", "p[2]")
    odds = np.exp([0.3, -0.4, 0.0])
    p = odds / odds.sum()
    right = np.zeros((6, 5))
    right[0, 0] = right[1, 1] = 1
    right[2, 2] = np.exp(0.5)
    right[3:, 3:] = (np.diag(p) - np.outer(p, p))[:, :2]
    np.testing.assert_allclose(found.rows, right, atol=1e-7)
    chosen = functions.of(target(), LABELS, place, ["p[1]", "weights[sqm]"])
    assert chosen.names == ("p[1]", "weights[sqm]")
    np.testing.assert_allclose(chosen.rows, right[[4, 1]], atol=1e-7)


def test_a_variance_has_the_coverage_of_its_log() -> None:
    rng = np.random.default_rng(1)
    place = Whitening(np.zeros(5), np.diag(rng.random(5) + 0.5))
    theta, mean = place.theta(rng.standard_normal((40, 5))), 0.3 * np.ones(5)
    rows = functions.of(target(), LABELS, place, ["noise_variance"]).rows
    by_name = score_regression.measure(theta, lambda t: mean - t, published=place, functions=rows)
    by_coordinate = score_regression.measure(theta, lambda t: mean - t, published=place)
    assert by_name.coverage[0] == pytest.approx(by_coordinate.coverage[2], rel=1e-6)


def test_a_probability_by_its_tangent() -> None:
    """A narrow posterior of log odds, published with another mean and width; true coverage by draws."""
    rng = np.random.default_rng(2)
    true = whitening.of_moments(np.array([0, 0, 0, 0.3, -0.4]), 0.01 * np.eye(5) + 0.004)
    place = whitening.of_moments(true.mean + 0.05, 0.006 * np.eye(5))
    rows = functions.of(target(), LABELS, place, ["p[0]", "p[2]"]).rows
    precision = np.linalg.inv(true.root @ true.root.T)
    theta = place.theta(rng.standard_normal((50, 5)))
    found = score_regression.measure(theta, lambda t: -(t - true.mean) @ precision, published=place, functions=rows)
    said, real = (
        target().constrain(of.theta(rng.standard_normal((200_000, 5))))["p"][:, [0, 2]] for of in (place, true)
    )
    low, high = np.quantile(said, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found.coverage, ((real > low) & (real < high)).mean(axis=0), atol=0.015)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(NoSuchNumber, match=r"'weights\[sqn\]' is not a known number.*did you mean 'weights\[sqm\]'"):
        functions.places(target().shapes, LABELS, ["weights[sqn]"])
    many = functions.places({"cov": (2, 2), "x": (100,)}, LABELS)
    assert list(many)[:4] == ["cov[a, a]", "cov[a, b]", "cov[b, a]", "cov[b, b]"]
    assert len(many) == 16
