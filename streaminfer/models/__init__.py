"""Models: a likelihood with a prior, one file each; a spec's `model.kind` is a key of this table, or a class's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaminfer.models.binary.logistic_regression import LogisticRegression
from streaminfer.models.binary.probit_regression import ProbitRegression
from streaminfer.models.conjugate.bernoulli import Bernoulli
from streaminfer.models.conjugate.categorical import Categorical
from streaminfer.models.conjugate.gaussian import Gaussian
from streaminfer.models.conjugate.linear_regression import LinearRegression
from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.models.lda.model import Lda
from streaminfer.models.mixture.gaussian_mixture import GaussianMixture
from streaminfer.models.model import AnyModel

MODELS: Final[Mapping[str, type[AnyModel]]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "poisson": Poisson,
    "gaussian": Gaussian,
    "linear_regression": LinearRegression,
    "logistic_regression": LogisticRegression,
    "probit_regression": ProbitRegression,
    "gaussian_mixture": GaussianMixture,
    "lda": Lda,
}
