"""Models: a likelihood with a prior, one file each; a spec's `model.kind` is a key of this table, or a class's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.models.bernoulli import Bernoulli
from streaminfer.models.categorical import Categorical
from streaminfer.models.gaussian import Gaussian
from streaminfer.models.gaussian_mixture import GaussianMixture
from streaminfer.models.linear_regression import LinearRegression
from streaminfer.models.logistic_regression import LogisticRegression
from streaminfer.models.model import Model
from streaminfer.models.poisson import Poisson
from streaminfer.models.probit_regression import ProbitRegression

MODELS: Final[Mapping[str, type[Model]]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "poisson": Poisson,
    "gaussian": Gaussian,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "probit_regression": ProbitRegression,
    "gaussian_mixture": GaussianMixture,
}
