"""Which method fits which target: by the members that the target has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DENSITY: Final = ("log_likelihood", "log_prior")
_GRADIENT: Final = ("gradient", "prior_gradient")
BOUNDED: Final = ("derivative_bounds", "ascent")
"""What certified bounds of decisions on subsets need, and expansions: events that are margins."""
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "mh": _DENSITY,
    "mala": _GRADIENT,
    "gibbs": ("blocks", "summary", "draw", "tempers"),
    "sgld": _GRADIENT,
    "sghmc": _GRADIENT,
    "sgnht": _GRADIENT,
    "sgrld": ("concentration", "counts"),
    "subsampled_mh": _DENSITY,
    "poisson_mh": (*_DENSITY, *BOUNDED),
    "flymc": (*_DENSITY, "lower_bound", "ascent"),
}
"""What a method needs beyond `target.Target`."""
BIAS_NEEDS: Final = ("curvature", "prior_curvature")
"""What `step: {bias: b}` and `precondition: mode` need."""


def missing(target: Any, method: str) -> str | None:
    """The first member that a method needs and a target does not have; None if it fits."""
    return next((name for name in NEEDS[method] if not hasattr(target, name)), None)


def fitting(target: Any) -> tuple[str, ...]:
    """The methods that fit a target."""
    return tuple(method for method in NEEDS if missing(target, method) is None)


def expands(target: Any) -> bool:
    """Whether decisions on subsets may use an expansion at the mode."""
    return all(hasattr(target, name) for name in (*BOUNDED, *_GRADIENT, *BIAS_NEEDS))


def is_bounded(target: Any, order: int) -> bool:
    """Whether what an expansion of this order leaves out has a certified bound."""
    bounds: tuple[float | None, ...] = getattr(target, "derivative_bounds", ())
    return all(hasattr(target, name) for name in BOUNDED) and order < len(bounds) and bounds[order] is not None


def has_bias_step(target: Any) -> bool:
    """Whether steps may be told by the bias that they are allowed."""
    return all(hasattr(target, name) for name in (*_GRADIENT, *BIAS_NEEDS))
