"""Results as values by name and coordinate. What is not known is None there, never NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

from streaminfer.measuring.diagnostics import Diagnostics
from streaminfer.measuring.measurement import Value
from streaminfer.measuring.score_regression import Regression
from streaminfer.measuring.stein import graph, kernel
from streaminfer.models.model import Vector


def known(number: float | None) -> float | None:
    """A number, or None if it is not finite."""
    return float(number) if number is not None and math.isfinite(number) else None


def of_regression(found: Regression, names: Sequence[str]) -> tuple[Value, ...]:
    """`coverage`, `shift` and `ratio` of each coordinate, with standard errors."""
    columns = [
        _column("coverage", names, found.coverage, found.coverage_se),
        _column("shift", names, found.shift, found.shift_se),
        _column("ratio", names, found.ratio, found.ratio_se),
    ]
    return tuple(chain(*columns))


def of_diagnostics(found: Diagnostics, names: Sequence[str]) -> tuple[Value, ...]:
    """`r_hat`, `ess_bulk`, `ess_tail` and `mcse` of each coordinate."""
    columns = zip(("r_hat", "ess_bulk", "ess_tail", "mcse"), found, strict=True)
    return tuple(chain(*(_column(name, names, column) for name, column in columns)))


def of_kernel(found: kernel.Discrepancy) -> tuple[Value, ...]:
    """`delta` and the squared discrepancies `ksd_u` and `ksd_v`."""
    return (
        Value("delta", value=known(found.delta), se=known(found.delta_se)),
        Value("ksd_u", value=known(found.u), se=known(found.u_se)),
        Value("ksd_v", value=known(found.v)),
    )


def of_graph(found: graph.Discrepancy) -> tuple[Value, ...]:
    """`graph_stein`, whose `upper` is its trivial bound."""
    return (Value("graph_stein", value=known(found.value), upper=known(found.bound)),)


def _column(name: str, names: Sequence[str], values: Vector, errors: Vector | None = None) -> list[Value]:
    ses = [None] * len(names) if errors is None else errors.tolist()
    return [
        Value(name, coordinate, known(value), known(se))
        for coordinate, value, se in zip(names, values.tolist(), ses, strict=True)
    ]
