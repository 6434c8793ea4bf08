"""Logistic regression: P(y = 1) = sigmoid(w · z)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streaminfer.models.binary import logistic_normal, regression
from streaminfer.models.binary.local_steps import links
from streaminfer.models.binary.regression import LOCAL, BinaryRegression
from streaminfer.models.binary.site_regression import SiteRegression
from streaminfer.models.model import Vector
from streaminfer.models.options import Section


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """The local step follows from the covariance if the spec does not say which."""
    return {**options, "local": options["local"] or LOCAL[options["covariance"]][0]}


@dataclass(frozen=True)
class LogisticRegression(SiteRegression):
    """By expectation propagation, Laplace's approximation or a bound."""

    kind: ClassVar[str] = "logistic_regression"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi", "memoized")
    link: ClassVar[links.Link] = staticmethod(links.logistic)
    options: ClassVar[Section] = regression.options(
        regression.local_option("bound", "(Jaakkola and Jordan), which is overconfident"),
        complete=_complete,
    )

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> BinaryRegression:
        from streaminfer.models.binary.logistic_bound import BoundLogisticRegression, DiagonalBoundLogisticRegression

        regression.check_local(options, "bound")
        forms: dict[tuple[str, bool], type[BinaryRegression]] = {
            ("full", True): BoundLogisticRegression,
            ("full", False): LogisticRegression,
            ("diagonal", True): DiagonalBoundLogisticRegression,
            ("diagonal", False): DiagonalLogisticRegression,
        }
        return forms[options["covariance"], options["local"] == "bound"](**regression.parts(options))

    def log_probability(self, means: Vector, deviations: Vector) -> Vector:
        return logistic_normal.log_mean_sigmoid(means, deviations)


@dataclass(frozen=True)
class DiagonalLogisticRegression(LogisticRegression):
    """With independent weights."""

    methods: ClassVar[tuple[str, ...]] = ("svb",)
