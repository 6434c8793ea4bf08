"""What every exponential family is: a module with these functions.

A family has densities h(x) exp(eta · T(x) - A(eta)) with natural parameters `eta`, one flat float64 vector whose
layout its module documents. T are the sufficient statistics, A is the log partition and h the base measure. Hence the
gradient of A is E[T] and its Hessian the covariance of T, the Fisher information (Wainwright & Jordan 2008, section 3).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Family(Protocol):
    """The verbs of a family's module. `parameters`, `p` and `q` are its own `Parameters`, draws are its `sample`'s."""

    @property
    def Parameters(self) -> type[Any]:  # noqa: N802, it is a class of the module
        """The ordinary parameters."""

    def to_natural(self, parameters: Any) -> Vector:
        """The natural parameters of ordinary ones."""

    def from_natural(self, eta: Vector) -> Any:
        """The ordinary parameters of natural ones, which must be in the domain."""

    def in_domain(self, eta: Vector) -> bool:
        """Whether `eta` is finite and gives a proper distribution."""

    def log_normaliser(self, parameters: Any) -> float:
        """A(to_natural(parameters)), without the digits that the way through `eta` may lose."""

    def log_partition(self, eta: Vector) -> float:
        """A(eta)."""

    def expected_statistics(self, eta: Vector) -> Vector:
        """E[T], the gradient of A, in the layout of `eta`."""

    def sufficient_statistics(self, draws: Any) -> Matrix:
        """T of each draw, (n, size of eta)."""

    def sample(self, parameters: Any, rng: np.random.Generator, n: int) -> Any:
        """n independent draws; the first axis is the draw."""

    def entropy(self, parameters: Any) -> float:
        """-E[log density], with respect to Lebesgue measure."""

    def kl(self, p: Any, q: Any) -> float:
        """KL(p || q) = E_p[log p - log q]."""
