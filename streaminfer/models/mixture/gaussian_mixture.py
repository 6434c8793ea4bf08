"""A mixture of Gaussians: z ~ Categorical(weights), x | z = k ~ N(mean_k, cov_k).

weights ~ Dirichlet(concentration), (mean_k, cov_k) ~ NIW(mean, kappa, dof, scale); variational Bayes with
q(z) q(weights) prod q(mean_k, cov_k) (Bishop 2006, section 10.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import dirichlet
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.models.conjugate import centred
from streaminfer.models.events import Field
from streaminfer.models.mixture import components, elbo, seeding
from streaminfer.models.mixture.posterior import MixturePosterior
from streaminfer.models.model import DomainError, Flags, Labels, Matrix, Vector
from streaminfer.models.options import Integer, Listing, OneOrMany, Option, OptionsError, Section, Text
from streaminfer.models.priors import POSITIVE, REAL, spread

_MOST_NUMBERS: Final = centred.size(1000)
"""Statistics have at most as many numbers (8 MB) as those of one Gaussian of the most fields that there may be."""


def _with_dof(options: dict[str, Any]) -> dict[str, Any]:
    """dof defaults to d + 2, the least whole number with which the prior mean of a covariance exists."""
    prior = options["prior"]
    dof = len(options["fields"]) + 2.0 if prior["dof"] is None else prior["dof"]
    return {**options, "prior": {**prior, "dof": dof}}


_PRIOR = Section(
    [
        Option(
            "concentration",
            OneOrMany(POSITIVE),
            "prior count of every component, or a list with one for each; a smaller one leaves more of them empty",
            1.0,
        ),
        Option("mean", OneOrMany(REAL), "prior mean of the components' means, or a list, one for each field", 0.0),
        Option("kappa", POSITIVE, "how many events of a component the prior mean is worth", 0.01),
        Option("dof", POSITIVE, "degrees of freedom, above d - 1 for d fields; not set means d + 2", None),
        Option(
            "scale",
            OneOrMany(POSITIVE),
            "scale matrix: a multiple of the identity, or a list with its diagonal; the prior mean of a component's "
            "covariance is scale / (dof - d - 1)",
            1.0,
        ),
    ]
)


FADED: Final = 1e-200
"""A component with fewer events has none: its count would leave float64 before its scatter does."""


@dataclass(frozen=True)
class GaussianMixture:
    """Statistics are centred moments of the d fields (see `centred`), expected, component after component.

    A component without events stays at the prior. It gets some once they are likelier under the prior than under
    every component that has events, so `prior.scale` should be of the size of the components' spread. A concentration
    of 1 is uniform over the weights; with one far below, a component without events would hardly ever get any.
    """

    kind: ClassVar[str] = "gaussian_mixture"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi", "memoized")
    exactness: ClassVar[str] = "bound"
    needs_base: ClassVar[bool] = True
    options: ClassVar[Section] = Section(
        [
            Option("fields", Listing(Text()), "the fields that are jointly a mixture of Gaussians"),
            Option("components", Integer(2, 1000), "how many Gaussians there are at most"),
            Option("seed", Integer(0, 2**32 - 1), "chooses the start, which all workers share", 0),
            Option("prior", _PRIOR, "Dirichlet prior of weights, Normal-inverse-Wishart prior of each component", {}),
        ],
        complete=_with_dof,
    )

    names: tuple[str, ...]
    components: int
    seed: int
    concentration: tuple[float, ...]
    mean: tuple[float, ...]
    kappa: float
    dof: float
    scale_diagonal: tuple[float, ...]

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        names, k, prior = options["fields"], options["components"], options["prior"]
        d = len(names)
        if k * centred.size(d) > _MOST_NUMBERS:
            raise OptionsError("components", f"must be at most {_MOST_NUMBERS // centred.size(d)} for {d} fields", k)
        if prior["dof"] <= d - 1:
            raise OptionsError("prior.dof", f"must be above {d - 1}, the number of fields less 1", prior["dof"])
        concentration = spread(prior["concentration"], k, "prior.concentration", "component")
        mean = spread(prior["mean"], d, "prior.mean", "field")
        scale = spread(prior["scale"], d, "prior.scale", "field")
        return cls(names, k, options["seed"], concentration, mean, prior["kappa"], prior["dof"], scale)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(name, "number") for name in self.names)

    @property
    def inputs(self) -> tuple[Field, ...]:
        return self.fields

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @cached_property
    def prior(self) -> niw.Parameters:
        """The prior of each component."""
        return niw.Parameters(np.array(self.mean), self.kappa, self.dof, np.diag(self.scale_diagonal))

    @cached_property
    def labels(self) -> Mapping[str, Labels]:
        """Components are called by their numbers, from 0."""
        numbers = tuple(map(str, range(self.components)))
        return {"weights": numbers, "means": (numbers, self.names), "covs": (numbers, self.names, self.names)}

    @property
    def size(self) -> int:
        return self.components * centred.size(len(self.names))

    def empty(self) -> Vector:
        return np.zeros(self.size)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        """A component by its weight, then an event of it."""
        k, n = len(parameters["weights"]), len(events)
        ends = np.cumsum(parameters["weights"], axis=1)
        drawn = rng.random((k, n)) * ends[:, -1:]
        component = (drawn[:, :, None] >= ends[:, None, :]).sum(axis=2)
        which, roots = np.arange(k)[:, None], np.linalg.cholesky(parameters["covs"])
        noise = rng.standard_normal((k, n, len(self.names)))
        around = np.einsum("knij,knj->kni", roots[which, component], noise)
        return np.asarray(parameters["means"][which, component] + around, dtype=np.float64)

    def merge(self, a: Vector, b: Vector) -> Vector:
        return self._flat(centred.merge(self._rows(a), self._rows(b), len(self.names)))

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        each = weight[..., None] if isinstance(weight, np.ndarray) else weight
        scaled = centred.scale(self._rows(statistics), each, len(self.names))
        scaled[scaled[..., 0] < FADED] = 0.0
        return self._flat(scaled)

    def proper(self, statistics: Matrix) -> Flags:
        if statistics.shape[1:] != (self.size,):
            raise DomainError(f"rows of statistics have shape {statistics.shape[1:]}, not ({self.size},)")
        rows = statistics.reshape(-1, centred.size(len(self.names)))
        return np.asarray(centred.proper(rows, len(self.names)).reshape(-1, self.components).all(axis=1))

    def posterior(self, statistics: Vector) -> MixturePosterior:
        if statistics.shape != (self.size,):
            raise DomainError(f"statistics have shape {statistics.shape}, not ({self.size},)")
        rows, faults = centred.examined(self._rows(statistics), len(self.names))
        if faults.any():
            k = int(faults.argmax())
            raise DomainError(f"component {k}: {centred.FAULTS[faults[k]].format(n=rows.n[k])}")
        found = components.absorbed(rows, self.prior)
        return MixturePosterior(self.prior, np.array(self.concentration) + rows.n, rows, found)

    def expected(self, q: MixturePosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        """Moments of each component, with events weighted by their responsibility; from the prior, k-means++ groups."""
        if weights is not None:
            events, weights = events[weights > components.LEAST], weights[weights > components.LEAST]
        if q.is_prior:
            groups = seeding.labels(events, weights, self.components, self.seed)
            return self._flat(centred.statistics_by(events, groups, self.components, weights))
        statistics = self.empty()
        for part, block in components.blocks(events, self.components):
            shares = q.responsibilities(block)
            if weights is not None:
                shares *= weights[part]
            statistics = self.merge(statistics, self._flat(components.moments(block, shares)))
        return statistics

    def elbo(self, q: MixturePosterior, events: Matrix) -> float:
        return elbo.elbo(q, dirichlet.Parameters(np.array(self.concentration)), events)

    def _rows(self, statistics: Vector) -> NDArray[np.float64]:
        """(..., size) as (..., K, moments of a component)."""
        return statistics.reshape(*statistics.shape[:-1], self.components, -1)

    def _flat(self, rows: NDArray[np.float64]) -> Vector:
        return rows.reshape(*rows.shape[:-2], -1)
