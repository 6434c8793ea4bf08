"""What a sampler needs of a model: densities and gradients on an unconstrained scale.

A target has a vector theta of d real numbers, and a map from it to the model's parameters. Densities are of theta:
the prior has the log Jacobian of the map inside. So prior^(1/J) is a product with 1/J, and nothing else changes.
`rows` are what the density needs of events, one row of numbers for each. Methods take k vectors theta at once.

Only `Target` is required. What else a target has says which methods fit it, see `streaminfer.sampling.choices.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Predictions, Vector

Parameters = dict[str, NDArray[np.float64]]
"""The model's parameters by name; the first axis is the draw."""


@runtime_checkable
class Target(Protocol):
    """A likelihood and a prior of theta (k, d) for rows (n, columns)."""

    @property
    def dimension(self) -> int:
        """d, the length of theta."""

    @property
    def columns(self) -> int:
        """The length of a row."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each parameter, by name, in declared order."""

    def rows(self, events: Matrix) -> Matrix:
        """What the density needs of events (n, fields): (n, columns)."""

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        """log p(row | theta), (k, n)."""

    def log_prior(self, theta: Matrix) -> Vector:
        """The log density of theta, Jacobian included, (k,)."""

    def constrain(self, theta: Matrix) -> Parameters:
        """The parameters of each theta: arrays (k, ...)."""

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        """The theta (k, d) of parameters (k, ...)."""


@runtime_checkable
class Differentiable(Target, Protocol):
    """A target with gradients."""

    def gradient(self, theta: Matrix, rows: Matrix) -> Matrix:
        """The gradient of the log likelihood, summed over rows: (k, d)."""

    def prior_gradient(self, theta: Matrix) -> Matrix:
        """The gradient of `log_prior`, (k, d)."""


@runtime_checkable
class Curved(Differentiable, Protocol):
    """A target with second derivatives, at one theta (d,)."""

    def curvature(self, theta: Vector, rows: Matrix) -> Matrix:
        """Minus the second derivatives of the log likelihood, summed over rows: (d, d)."""

    def prior_curvature(self, theta: Vector) -> Matrix:
        """Minus the second derivatives of `log_prior`, (d, d)."""


@runtime_checkable
class Weighing(Curved, Protocol):
    """A target whose events may count by weights (n,), as forgetting gives them. The prior has no weight."""

    @property
    def weighs(self) -> bool:
        """True."""

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        """The sum over rows of weight times gradient; without weights all count alike: (k, d)."""

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        """The same of minus the second derivatives, at one theta (d,): (d, d)."""


@runtime_checkable
class Published(Target, Protocol):
    """A target that knows the densities of its model's posteriors in theta, Jacobian included."""

    def log_posterior(self, posterior: Any, theta: Matrix) -> Vector:
        """The log density of a posterior that the model made, at each theta (k, d): (k,)."""

    def posterior_gradient(self, posterior: Any, theta: Matrix) -> Matrix:
        """The gradient of `log_posterior`, (k, d)."""


@runtime_checkable
class Scoring(Differentiable, Protocol):
    """A target that knows the gradient of each row by itself."""

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        """The gradient of each row's log likelihood at one theta (d,): (n, d)."""


@runtime_checkable
class Guessing(Target, Protocol):
    """A target that knows where to look for its mode."""

    def guess(self, rows: Matrix) -> Vector:
        """A theta (d,) that is not far from the mode, given n >= 0 rows."""


@runtime_checkable
class Drawing(Target, Protocol):
    """A target whose prior can be drawn from."""

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        """n draws of theta from the prior, (n, d)."""


@runtime_checkable
class Predictive(Target, Protocol):
    """A target of a model that `Predicts`: what the model's posterior predicts, by draws of the parameters."""

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """As `Predicting.predict` of rows (n, inputs), n >= 0: averages over k >= 1 draws (k, ...)."""


@runtime_checkable
class Normalised(Target, Protocol):
    """A target that says whether its densities integrate to 1, so that the evidence of data is known."""

    @property
    def is_normalised(self) -> bool:
        """Whether likelihood and prior have all their constants."""


class Quadratic(NamedTuple):
    """a m^2 + b m + c for each margin m, (n,) all three."""

    a: Vector
    b: Vector
    c: Vector

    def __call__(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        return (self.a * margins + self.b) * margins + self.c


class Ascent(NamedTuple):
    """f, f' and minus f'' of margins, each in their shape."""

    log: NDArray[np.float64]
    slope: NDArray[np.float64]
    bend: NDArray[np.float64]


@runtime_checkable
class Bounded(Target, Protocol):
    """A target whose log likelihood is f(row · theta), with bounds on the derivatives of f."""

    def ascent(self, margins: NDArray[np.float64]) -> Ascent:
        """f and its derivatives at margins of any shape."""

    @property
    def derivative_bounds(self) -> tuple[float | None, float | None, float | None]:
        """The largest size of f', f'' and f'''; None if there is none."""


@runtime_checkable
class Collapsible(Target, Protocol):
    """A target whose log likelihood f(row · theta) has a lower bound that is quadratic in the margin."""

    def lower_bound(self, at: Vector) -> Quadratic:
        """Bounds of f that touch it at the margins `at` (n,)."""


@runtime_checkable
class Conditional(Target, Protocol):
    """A target that is drawn block by block, each given the others.

    Blocks may be of theta or of latent variables, which are one array: (n,) or (0,) if there are none.
    """

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the blocks, in the order of a systematic scan: latent variables first."""

    def summary(self, rows: Matrix) -> Any:
        """What all draws need of the rows and is computed once."""

    def draw(self, block: str, at: Drawn, rows: Matrix, summary: Any, share: float, rng: np.random.Generator) -> Drawn:
        """A draw of one block given the others, for the prior to the power of `share`."""

    def tempers(self, share: float) -> bool:
        """Whether `draw` can take the prior to the power of `share`."""


class Drawn(NamedTuple):
    """theta (d,) and the latent variables (n,), or (0,) before they were first drawn."""

    theta: Vector
    latent: NDArray[np.float64]
