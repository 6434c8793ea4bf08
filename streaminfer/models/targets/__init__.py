"""Targets of samplers: the densities of models on an unconstrained scale, one file for each model.

`target_of` finds the target of a model: by its kind in the table `TARGETS`, or the model itself if it is a class of a
user's own that has the members of `target.Target`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from streaminfer.models import MODELS
from streaminfer.models.model import AnyModel
from streaminfer.models.targets.kinds.bernoulli import Bernoulli
from streaminfer.models.targets.kinds.categorical import Categorical
from streaminfer.models.targets.kinds.gaussian import Gaussian
from streaminfer.models.targets.kinds.gaussian_mixture import GaussianMixture
from streaminfer.models.targets.kinds.lda import Lda
from streaminfer.models.targets.kinds.linear_regression import LinearRegression
from streaminfer.models.targets.kinds.logistic_regression import LogisticRegression
from streaminfer.models.targets.kinds.poisson import Poisson
from streaminfer.models.targets.kinds.probit_regression import ProbitRegression

TARGETS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "bernoulli": Bernoulli.of,
    "categorical": Categorical.of,
    "poisson": Poisson.of,
    "gaussian": Gaussian.of,
    "linear_regression": LinearRegression.of,
    "logistic_regression": LogisticRegression.of,
    "probit_regression": ProbitRegression.of,
    "gaussian_mixture": GaussianMixture.of,
    "lda": Lda.of,
}
MEMBERS: Final = ("dimension", "columns", "shapes", "rows", "log_likelihood", "log_prior", "constrain", "unconstrain")
"""What every target of numbers has; topics of documents have neither densities nor theta."""


def target_of(model: AnyModel) -> Any:
    """The target of a model; raises TypeError that names a missing member if it has none.

    A bound is a way to learn: the density of the model is that without it.
    """
    # A class of a user's own may have any kind; a form of a model in the table has the options of that.
    known = MODELS.get(model.kind)
    if known is not None and (isinstance(model, known) or model.options is known.options):
        return TARGETS[model.kind](model)
    missing = [name for name in MEMBERS if not hasattr(model, name)]
    if missing:
        raise TypeError(f"{model.kind} cannot be sampled: it has no {missing[0]}, which every target has")
    if hasattr(model, "gradient"):
        return model
    from streaminfer.models.targets.autodiff import Derived

    try:
        derived = Derived(model)
        derived.trace()
    except Exception:  # no JAX, or densities that it cannot follow, which may raise anything
        return model  # methods without gradients still fit it
    return derived
