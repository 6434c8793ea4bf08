"""Gaussian events with a Normal-inverse-Wishart prior: x ~ N(mean, cov), (mean, cov) ~ NIW(mean, kappa, dof, scale)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.models import pooling, priors
from streaminfer.models.conjugate import centred, pooled_gaussian, roots
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Listing, OneOrMany, Option, OptionsError, Section, Text
from streaminfer.models.predictive import log_student_t, student_t
from streaminfer.models.priors import POSITIVE, REAL, spread


def _with_dof(options: dict[str, Any]) -> dict[str, Any]:
    """dof defaults to d + 2, the least whole number with which the prior mean of cov exists."""
    prior = options["prior"]
    dof = len(options["fields"]) + 2.0 if prior["dof"] is None else prior["dof"]
    return {**options, "prior": {**prior, "dof": dof}}


@dataclass(frozen=True)
class Gaussian:
    """Statistics are centred moments of the d fields (see `centred`)."""

    kind: ClassVar[str] = "gaussian"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("fields", Listing(Text()), "the fields that are jointly Gaussian"),
            Option(
                "prior",
                Section(
                    [
                        Option("mean", OneOrMany(REAL), "prior mean, or a list with one for each field", 0.0),
                        Option("kappa", POSITIVE, "how many events the prior mean is worth", 0.01),
                        Option(
                            "dof", POSITIVE, "degrees of freedom, above d - 1 for d fields; not set means d + 2", None
                        ),
                        Option(
                            "scale",
                            OneOrMany(POSITIVE),
                            "scale matrix: a multiple of the identity, or a list with its diagonal; "
                            "the prior mean of cov is scale / (dof - d - 1)",
                            1.0,
                        ),
                    ]
                ),
                "Normal-inverse-Wishart prior of mean and cov",
                {},
            ),
        ],
        complete=_with_dof,
    )

    names: tuple[str, ...]
    mean: tuple[float, ...]
    kappa: float
    dof: float
    scale_diagonal: tuple[float, ...]

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        names, prior = options["fields"], options["prior"]
        d = len(names)
        dof = prior["dof"]
        if dof <= d - 1:
            raise OptionsError("prior.dof", f"must be above {d - 1}, the number of fields less 1", dof)
        mean = spread(prior["mean"], d, "prior.mean", "field")
        return cls(names, mean, prior["kappa"], dof, spread(prior["scale"], d, "prior.scale", "field"))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(name, "number") for name in self.names)

    @cached_property
    def prior(self) -> niw.Parameters:
        return niw.Parameters(np.array(self.mean), self.kappa, self.dof, np.diag(self.scale_diagonal))

    @property
    def inputs(self) -> tuple[Field, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.names

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {"mean": self.names, "cov": self.names}

    @property
    def size(self) -> int:
        return centred.size(len(self.names))

    def empty(self) -> Vector:
        return centred.empty(len(self.names))

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        return centred.statistics(events, weights)

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        return centred.statistics_by(events, groups, k, weights)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        means, roots_of_cov = parameters["mean"], np.linalg.cholesky(parameters["cov"])
        noise = rng.standard_normal((len(means), len(events), means.shape[1]))
        return np.asarray(means[:, None, :] + noise @ roots_of_cov.swapaxes(1, 2), dtype=np.float64)

    def merge(self, a: Vector, b: Vector) -> Vector:
        return centred.merge(a, b, len(self.names))

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return centred.scale(statistics, weight, len(self.names))

    def proper(self, statistics: Matrix) -> Flags:
        return centred.proper(statistics, len(self.names))

    def total_weight(self, statistics: Matrix) -> Vector:
        return statistics[:, 0]

    def log_evidences(self, statistics: Matrix) -> Vector:
        rows = centred.parts(statistics, len(self.names))
        found = [pooled_gaussian.log_evidences(part, self._diagonal_prior) for part in rows]
        return np.concatenate([np.zeros(0), *found])

    @property
    def prior_options(self) -> Mapping[str, Any]:
        scale = list(self.scale_diagonal)
        return {"mean": list(self.mean), "kappa": self.kappa, "dof": self.dof, "scale": scale}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        return self.build({"fields": self.names, "prior": priors.checked(self.options, self.prior_options, prior)})

    def pooled(self, statistics: Matrix) -> Self:
        rows = statistics[statistics[:, 0] != 0]
        blocks = list(centred.parts(rows, len(self.names)))
        if not pooling.enough(len(rows), float(rows[:, 0].sum()), 2 * len(self.names) + 2):
            return self
        found = pooled_gaussian.maximum(blocks, self._diagonal_prior)
        kappa, dof = priors.positives(np.array([found.kappa, found.dof]))
        lists = {"mean": priors.reals(found.mean), "scale": priors.positives(found.scale)}
        return pooling.better(self, self.with_prior({**lists, "kappa": kappa, "dof": dof}), rows)

    @property
    def _diagonal_prior(self) -> pooled_gaussian.Prior:
        return pooled_gaussian.Prior(np.array(self.mean), self.kappa, self.dof, np.array(self.scale_diagonal))

    def posterior(self, statistics: Vector) -> GaussianPosterior:
        """kappa + n, dof + n, scale + scatter + kappa n / (kappa + n) d d', d = xbar - mean (Murphy 2007, 8.3)."""
        moments = centred.checked(statistics, len(self.names))
        n, prior = moments.n, self.prior
        kappa = self.kappa + n
        away = (moments.mean - prior.mean) + moments.rest
        shift = math.sqrt(self.kappa * (n / kappa)) * away
        mean = prior.mean + n / kappa * away
        spread_rows = roots.triangle(np.vstack([moments.root, np.diag(np.sqrt(self.scale_diagonal))]))
        factor = roots.absorb(spread_rows, shift).T
        scale = prior.scale + moments.scatter + np.outer(shift, shift)
        return GaussianPosterior(self, moments, niw.Parameters(mean, kappa, self.dof + n, scale), factor)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianPosterior:
    """NIW parameters; `factor` is the lower Cholesky factor of their scale."""

    family: ClassVar[str] = "normal-inverse-wishart"

    model: Gaussian
    moments_absorbed: centred.Centred
    parameters: niw.Parameters
    factor: Matrix

    @property
    def natural(self) -> Vector:
        """Sums of the prior's and the events' own terms: (kappa m + n xbar, ...)."""
        n, mean, _, scatter, _ = self.moments_absorbed
        increment: Vector = np.concatenate([n * mean, (scatter + n * np.outer(mean, mean)).ravel(), [n, n]])
        return niw.to_natural(self.model.prior) + increment

    def moments(self) -> dict[str, Moments]:
        """mean is a t with dof - d + 1 degrees of freedom, cov an inverse Wishart."""
        mean, kappa, dof, scale = self.parameters
        d = mean.size
        beyond = dof - d - 1
        cov = scale / beyond if beyond > 0 else np.full((d, d), math.nan)
        located = mean if dof > d else np.full(d, math.nan)
        return {
            "mean": Moments(located, np.sqrt(cov.diagonal() / kappa), cov / kappa),
            "cov": Moments(cov, _inverse_wishart_sd(dof, scale)),
        }

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        mean, cov = niw.sample_with(self.parameters, self.factor, rng, n)
        return {"mean": mean, "cov": cov}

    def log_predictive(self, events: Matrix) -> Vector:
        """t with nu = dof - d + 1 degrees of freedom and shape matrix scale (kappa + 1) / (kappa nu)."""
        mean, kappa, dof, _ = self.parameters
        d = mean.size
        nu = dof - d + 1
        widening = (kappa + 1) / (kappa * nu)
        squares = (matrices.solve_lower(self.factor, (events - mean).T) ** 2).sum(axis=0) / widening
        return log_student_t(squares, nu, d, matrices.log_determinant(self.factor) + d * math.log(widening))

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of each field of a new event: the marginals of the t of `log_predictive`."""
        mean, kappa, dof, _ = self.parameters
        nu = dof - mean.size + 1
        scale = np.linalg.norm(self.factor, axis=1) * math.sqrt((kappa + 1) / (kappa * nu))
        return {name: np.tile(values, (len(inputs), 1)) for name, values in student_t(mean, scale, nu, level).items()}

    def log_evidence(self) -> float:
        """A(posterior) - A(prior) - n d/2 log 2 pi."""
        _, kappa, dof, _ = self.parameters
        d, n = len(self.factor), self.moments_absorbed.n
        change = niw.log_normaliser_of(kappa, dof, self.factor) - niw.log_normaliser(self.model.prior)
        return change - 0.5 * n * d * math.log(2 * math.pi)


def _inverse_wishart_sd(dof: float, scale: Matrix) -> Matrix:
    """sqrt(((nu + 1) S_ij^2 + (nu - 1) S_ii S_jj) / (nu (nu - 1)^2 (nu - 3))), nu = dof - d; needs nu > 3."""
    nu = dof - len(scale)
    if nu <= 3:
        return np.full(scale.shape, math.nan)
    roots_of_diagonal = np.sqrt(scale.diagonal())
    sizes = np.outer(roots_of_diagonal, roots_of_diagonal)
    correlations = scale / sizes
    sd: Matrix = sizes * np.sqrt(((nu + 1) * correlations**2 + nu - 1) / (nu * (nu - 3))) / (nu - 1)
    return sd
