"""Results as values: names, coordinates, and None for what is not known."""

from __future__ import annotations

import numpy as np

from streaminfer.measuring import diagnostics, score_regression, values
from streaminfer.measuring.measurement import Value
from streaminfer.measuring.stein import graph, kernel


def test_what_is_not_known_is_none() -> None:
    draws = np.random.default_rng(1).standard_normal((2, 100, 2))
    draws[:, :, 1] = 3.0
    found = values.of_diagnostics(diagnostics.measure(draws), ["a", "b"])
    assert [(each.name, each.coordinate) for each in found[:4]] == [
        ("r_hat", "a"), ("r_hat", "b"), ("ess_bulk", "a"), ("ess_bulk", "b"),
    ]  # fmt: skip
    assert all((each.value is None) == (each.coordinate == "b") for each in found)
    theta = draws[0][:, :1]
    functions = np.array([[1.0], [0.0]])
    regression = score_regression.measure(theta, lambda t: -t, functions=functions)
    told = values.of_regression(regression, ["a", "b"])
    assert [each.name for each in told] == ["coverage"] * 2 + ["shift"] * 2 + ["ratio"] * 2
    assert (told[0].value, told[0].se) == (regression.coverage[0], regression.coverage_se[0])
    assert told[1] == Value("coverage", "b")


def test_stein_discrepancies() -> None:
    x = np.random.default_rng(2).standard_normal((20, 1))
    found = kernel.measure(x, -x)
    assert values.of_kernel(found)[0] == Value("delta", "", found.delta, found.delta_se)
    near = graph.measure(x, -x)
    assert values.of_graph(near) == (Value("graph_stein", value=near.value, upper=near.bound),)
