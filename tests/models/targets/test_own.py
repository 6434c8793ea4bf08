"""Targets of a user's own: by their members, and with gradients that JAX derives."""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import target_of
from streaminfer.models.targets.autodiff import Derived
from streaminfer.models.targets.checks import gradient_fault
from streaminfer.models.targets.density import Density
from streaminfer.sampling import methods
from tests.models.examples import build

jnp: Any = importlib.import_module("jax.numpy")


class Waiting:
    """t ~ Exponential(rate), log rate ~ N(0, 1): with densities alone, by functions of jax.numpy."""

    kind = "waiting"
    dimension, columns = 1, 1
    functions: Any = jnp

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"rate": ()}

    def rows(self, events: np.ndarray) -> np.ndarray:
        return events

    def log_likelihood(self, theta: Any, rows: Any) -> Any:
        return theta - self.functions.exp(theta) * rows[:, 0]

    def log_prior(self, theta: Any) -> Any:
        return -0.5 * theta[:, 0] ** 2 - 0.5 * self.functions.log(2 * np.pi)

    def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {"rate": np.exp(theta[:, 0])}

    def unconstrain(self, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.log(parameters["rate"])[:, None]


ROWS = np.random.default_rng(1).exponential(0.5, (30, 1))
THETA = np.array([[0.3], [-1.0], [2.0]])


def test_jax_derives_gradients_and_curvature_in_double_precision() -> None:
    made = target_of(Waiting())  # type: ignore[arg-type]
    assert isinstance(made, Derived)
    assert gradient_fault(made, THETA, ROWS) is None
    expected = len(ROWS) - np.exp(THETA) * ROWS.sum()
    np.testing.assert_allclose(made.gradient(THETA, ROWS), expected, rtol=1e-13)
    np.testing.assert_allclose(made.scores(THETA[0], ROWS), 1 - np.exp(THETA[0]) * ROWS, rtol=1e-13)
    density = Density(made, ROWS)
    np.testing.assert_allclose(density.curvature(THETA[0]), [[1 + np.exp(0.3) * ROWS.sum()]], rtol=1e-13)
    np.testing.assert_allclose(made.prior_gradient(THETA), -THETA, rtol=1e-13)
    assert made.log_likelihood(THETA, ROWS).dtype == np.float64
    np.testing.assert_allclose(made.unconstrain(made.constrain(THETA)), THETA)
    assert dict(made.shapes) == {"rate": ()}
    assert made.rows(ROWS).shape == ROWS.shape


def test_jax_is_left_in_its_own_precision_elsewhere() -> None:
    target_of(Waiting()).gradient(THETA, ROWS)  # type: ignore[arg-type]
    assert jnp.ones(1).dtype == np.float32


def test_without_jax_methods_without_gradients_still_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "jax":
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    target = target_of(Waiting())  # type: ignore[arg-type]
    assert isinstance(target, Waiting)
    assert methods.fitting(target) == ("mh", "subsampled_mh")
    assert methods.missing(target, "mala") == "gradient"
    with pytest.raises(ImportError, match="install the extra `autodiff`"):
        Derived(target)


def test_densities_that_jax_cannot_follow_are_left_as_they_are() -> None:
    class Plain(Waiting):
        functions = np

    plain = Plain()
    assert target_of(plain) is plain  # type: ignore[arg-type, comparison-overlap]
    assert methods.fitting(plain) == ("mh", "subsampled_mh")


def test_what_else_a_target_has_is_kept() -> None:
    class Drawing(Waiting):
        def sample_prior(self, rng: np.random.Generator, n: int) -> np.ndarray:
            return rng.standard_normal((n, 1))

    made = target_of(Drawing())  # type: ignore[arg-type]
    assert isinstance(made, Derived)
    assert made.sample_prior(np.random.default_rng(1), 3).shape == (3, 1)
    assert not hasattr(made, "guess")


def test_topics_have_no_densities() -> None:
    target = target_of(build("lda", field="words", vocabulary=["a", "b", "c"], topics=2))
    assert (target.dimension, target.columns, target.shapes) == (6, 3, {"topics": (2, 3)})
    assert not hasattr(target, "log_likelihood")


def test_a_class_with_all_members_is_its_own_target() -> None:
    class Own(Waiting):
        functions = np

        def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
            return len(rows) - np.exp(theta) * rows.sum()

        def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
            return -theta

    own = Own()
    assert target_of(own) is own  # type: ignore[arg-type, comparison-overlap]
    assert methods.fitting(own) == ("mh", "mala", "sgld", "sghmc", "sgnht", "subsampled_mh")
    assert not methods.has_bias_step(own)
    assert gradient_fault(own, THETA, ROWS) is None


def test_a_class_without_a_member_is_named_with_it() -> None:
    class Lacking(Waiting):
        constrain: Any = property()

    with pytest.raises(TypeError, match="waiting cannot be sampled: it has no constrain"):
        target_of(Lacking())  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", ["shape", "nan", "value"])
def test_what_is_wrong_with_a_gradient_is_told(fault: str) -> None:
    class Own(Waiting):
        functions = np

        def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
            right = len(rows) - np.exp(theta) * rows.sum()
            return {"shape": right[0], "nan": right * np.nan, "value": right + 1}[fault]

        def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
            return -theta

    told = gradient_fault(Own(), THETA, ROWS)
    assert told is not None
    expected = {"shape": "has the shape (1,), not (3, 1)", "nan": "is not finite", "value": "finite differences have"}
    assert expected[fault] in told


def test_which_methods_fit_which_model() -> None:
    """The table of docs and design, cell by cell."""
    shared = {"mh", "mala", "gibbs", "sgld", "sghmc", "sgnht", "subsampled_mh"}
    rows = {
        "logistic_regression": shared | {"poisson_mh", "flymc"},
        "probit_regression": shared | {"poisson_mh", "flymc"},
        "poisson": shared,
        "gaussian": shared,
        "linear_regression": shared,
        "bernoulli": shared,
        "categorical": shared | {"sgrld"},
        "gaussian_mixture": shared,
        "lda": {"sgrld"},
    }
    options: dict[str, dict[str, Any]] = {
        "logistic_regression": {"features": ["a"], "target": "y"},
        "probit_regression": {"features": ["a"], "target": "y"},
        "poisson": {"field": "k"},
        "gaussian": {"fields": ["a"]},
        "linear_regression": {"features": ["a"], "target": "y"},
        "bernoulli": {"field": "y"},
        "categorical": {"field": "c", "categories": ["a", "b"]},
        "gaussian_mixture": {"fields": ["a"], "components": 2},
        "lda": {"field": "words"},
    }
    for kind, expected in rows.items():
        target = target_of(build(kind, **options[kind]))
        assert set(methods.fitting(target)) == expected, kind
        assert methods.has_bias_step(target) == (kind != "lda"), kind
