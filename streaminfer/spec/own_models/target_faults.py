"""What is wrong with a class that should be sampled, and with the model it builds: one clause for each fault.

Members are those of `streaminfer.models.targets.target`. Densities are asked at a few places theta with made-up events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.events import Field
from streaminfer.models.model import Matrix
from streaminfer.models.targets import target_of
from streaminfer.models.targets.autodiff import Derived
from streaminfer.models.targets.checks import gradient_fault
from streaminfer.spec.own_models.own_faults import of_fields, of_section, short

Numbers = NDArray[np.float64]

ASKED: Final = ("kind", "options", "build", "rows", "log_likelihood", "log_prior", "constrain", "unconstrain")
"""What the class has: the last six are methods."""
BUILT: Final = ("fields", "labels", "dimension", "columns", "shapes")
"""What its models have as well."""
EVENTS: Final = 8
NEAR: Final = 3
"""Places near 0, where no parameter leaves float64; as many are drawn from the prior."""
MODERATE: Final = 1e6
"""A log density above this size leaves too few digits for differences."""
VALUES: Final[Mapping[str, Callable[[np.random.Generator, Field], Numbers]]] = {
    "number": lambda rng, _: rng.standard_normal(EVENTS),
    "positive": lambda rng, _: rng.standard_exponential(EVENTS) + 0.1,
    "count": lambda rng, _: rng.poisson(3.0, EVENTS).astype(np.float64),
    "binary": lambda rng, _: rng.permutation(np.arange(EVENTS) % 2).astype(np.float64),
    "category": lambda rng, field: rng.integers(0, max(len(field.categories), 1), EVENTS).astype(np.float64),
}
"""Values of a field, by its kind."""


def is_for_samplers(made: type[Any]) -> bool:
    """Whether a class has the densities that samplers ask for."""
    return hasattr(made, "log_likelihood") and hasattr(made, "log_prior")


def of_class(made: type[Any]) -> Iterator[str]:
    """What of a class is not as samplers ask."""
    for name in ASKED:
        if not hasattr(made, name):
            what = name if name in ASKED[:2] else f"method {name}"
            yield f"has no {what}, which every model for samplers has"
        if name not in ASKED[:2] and not callable(getattr(made, name)):
            yield f"has no method {name}, which every model for samplers has"
    yield from of_section(made)


def of_model(model: Any) -> Iterator[str]:
    """What of a model is not as samplers ask; it ends with its gradients."""
    yield from (f"has no {name}" for name in BUILT if not hasattr(model, name))
    yield from of_fields(model)
    for name in ("dimension", "columns"):
        value = getattr(model, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            yield f"has a {name} that is not a whole number above 0, but {short(value)}"
    if not _are_shapes(model.shapes):
        yield f"has shapes that are not a mapping of names to tuples of whole numbers, but {short(model.shapes)}"
    with np.errstate(all="ignore"):
        yield from _of_densities(target_of(model), model.fields)


def _are_shapes(shapes: Any) -> bool:
    return isinstance(shapes, Mapping) and bool(shapes) and all(map(_is_shape, shapes.items()))


def _is_shape(item: tuple[Any, Any]) -> bool:
    name, shape = item
    return isinstance(name, str) and isinstance(shape, tuple) and all(isinstance(n, int) and n > 0 for n in shape)


def _of_densities(target: Any, fields: tuple[Field, ...]) -> Iterator[str]:
    rng = np.random.default_rng(0)
    rows = target.rows(np.column_stack([VALUES[field.kind](rng, field) for field in fields]))
    yield from _of_array("rows()", rows, (EVENTS, target.columns))
    theta = _places(target, rng)
    prior, logs = target.log_prior(theta), target.log_likelihood(theta, rows)
    yield from _of_array("log_prior()", prior, (len(theta),))
    yield from _of_array("log_likelihood()", logs, (len(theta), EVENTS))
    moderate = np.abs(prior) <= MODERATE
    if not moderate.any():
        yield "has a log_prior() that is not finite at its draws nor near 0, but theta is unconstrained"
    yield from _of_parameters(target, theta[-NEAR:])
    # Events of a user's own may be of a narrower domain than their fields; such rows say nothing.
    possible = np.abs(logs) <= MODERATE
    rows, possible = rows[possible[-NEAR:].all(axis=0)], possible[:, possible[-NEAR:].all(axis=0)]
    if hasattr(target, "gradient") and not isinstance(target, Derived):
        yield from _of_gradients(target, theta[moderate & possible.all(axis=1)], rows)


def _places(target: Any, rng: np.random.Generator) -> Matrix:
    """Draws from the prior if it has some, and after them places near 0, (k, d)."""
    near = 0.3 * rng.standard_normal((NEAR, target.dimension))
    if not hasattr(target, "sample_prior"):
        return near
    drawn = np.asarray(target.sample_prior(rng, NEAR), dtype=np.float64)
    return np.concatenate([drawn, near]) if drawn.shape == near.shape else near


def _of_array(name: str, value: Any, shape: tuple[int, ...]) -> Iterator[str]:
    if not isinstance(value, np.ndarray) or value.shape != shape or value.dtype != np.float64:
        yield f"has a {name} that is not an array {shape} of float64, but {short(value)}"


def _of_parameters(target: Any, theta: Matrix) -> Iterator[str]:
    """There and back, each parameter in its shape."""
    found = target.constrain(theta)
    if not isinstance(found, Mapping) or list(found) != list(target.shapes):
        yield f"has a constrain() whose names are not those of shapes in their order, but {short(list(found))}"
    for name, shape in target.shapes.items():
        yield from _of_array(f"constrain() whose {name!r}", found[name], (len(theta), *shape))
    back = target.unconstrain(found)
    yield from _of_array("unconstrain()", back, theta.shape)
    off = np.abs(back - theta) > 1e-6 * (1 + np.abs(theta))
    if off.any():
        k, i = np.argwhere(off)[0]
        yield f"has an unconstrain() that does not undo constrain(): {theta[k, i]:.6g} comes back as {back[k, i]:.6g}"


def _of_gradients(target: Any, theta: Matrix, rows: Matrix) -> Iterator[str]:
    if not hasattr(target, "prior_gradient"):
        yield "has a gradient, but no prior_gradient"
    for name in ("gradient", "prior_gradient"):
        value = target.gradient(theta, rows) if name == "gradient" else target.prior_gradient(theta)
        yield from _of_array(f"{name}()", value, theta.shape)
    fault = gradient_fault(target, theta, rows)
    if fault is not None:
        yield f"is wrong: its {fault}"
