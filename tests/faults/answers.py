"""Cases with their exact batch posteriors, by textbook formulas in 50 digits and without any code of the package."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Case:
    """A model with data: `rows` are what stands in the file, `natural` and `parameters` the exact answer."""

    model: dict[str, Any]
    header: list[str]
    rows: list[list[Any]]
    natural: np.ndarray
    parameters: dict[str, dict[str, np.ndarray]]
    n_effective: float | None = None
    """The sum of the rows' weights, if they have any."""
    timestamp: str | None = None

    def write_csv(self, path: Path) -> Path:
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(self.header)
            writer.writerows(self.rows)
        return path

    def write_spec(
        self, path: Path, name: str, partitions: int = 4, data: dict[str, Any] | None = None, **inference: Any
    ) -> Path:
        section = {"partitions": partitions, "timestamp": self.timestamp, **(data or {})}
        document = {"name": name, "data": section, "model": self.model, "inference": inference}
        path.write_text(json.dumps(document))  # JSON is YAML
        return path

    def check(self, document: dict[str, Any]) -> None:
        """Asserts that a document of `snapshot --json` is the exact posterior of all rows, each once."""
        assert document["n_events"] == len(self.rows)
        effective = len(self.rows) if self.n_effective is None else self.n_effective
        assert abs(document["n_effective"] - effective) <= TOLERANCE * effective
        assert document["n_lost"] == document["n_rejected"] == document["n_damped"] == 0
        np.testing.assert_allclose(document["natural"], self.natural, rtol=TOLERANCE)
        assert document["parameters"].keys() == self.parameters.keys()
        for name, moments in self.parameters.items():
            for moment, want in moments.items():
                _check_moment(np.array(document["parameters"][name][moment]), want, f"{moment} of {name}")


def _check_moment(got: np.ndarray, want: np.ndarray, what: str) -> None:
    """Each number to 1e-9 of itself; entries of a matrix to 1e-9 of its diagonal, as they may be 0."""
    diagonal = np.sqrt(np.abs(want.diagonal())) if want.ndim == 2 else np.ones(1)
    size = np.outer(diagonal, diagonal) if want.ndim == 2 else np.abs(want)
    assert got.shape == want.shape, what
    assert np.abs((got - want) / size).max() <= TOLERANCE, f"{what}: {got} is not {want}"


Weights = np.ndarray | None
"""How much each row counts; None: once each. The answer is the prior and the weighted sums, in 50 digits."""


def bernoulli(n: int, seed: int = 1, weights: Weights = None) -> Case:
    y = (np.random.default_rng(seed).random(n) < 0.3).astype(int).tolist()
    ones, all_of_them = _total(y, weights), _total([1] * n, weights)
    a, b = float(2.5 + ones), float(0.5 + all_of_them - ones)
    p = {"mean": np.array(a / (a + b)), "sd": np.array(np.sqrt(a * b / (a + b + 1)) / (a + b))}
    model = {"kind": "bernoulli", "field": "y", "prior": {"alpha": 2.5, "beta": 0.5}}
    return Case(model, ["y"], [[v] for v in y], np.array([a, b]), {"p": p}, float(all_of_them))


def categorical(n: int, seed: int = 1, weights: Weights = None) -> Case:
    names = ["a", "b", "c", "d"]
    drawn = np.random.default_rng(seed).choice(4, size=n, p=[0.1, 0.2, 0.3, 0.4])
    c = np.array([float(mp.mpf(0.7) + _total((drawn == i).tolist(), weights)) for i in range(4)])
    mean = c / c.sum()
    p = {"mean": mean, "sd": np.sqrt(mean * (1 - mean) / (c.sum() + 1))}
    model = {"kind": "categorical", "field": "c", "categories": names, "prior": {"concentration": 0.7}}
    rows = [[names[i]] for i in drawn]
    return Case(model, ["c"], rows, c, {"p": p}, float(_total([1] * n, weights)))


def poisson(n: int, seed: int = 1, weights: Weights = None) -> Case:
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.5, 3, n)
    count = rng.poisson(2.2 * exposure)
    shape, rate = float(3 + _total(count.tolist(), weights)), float(0.25 + _total(exposure.tolist(), weights))
    moments = {"mean": np.array(shape / rate), "sd": np.array(np.sqrt(shape) / rate)}
    model = {"kind": "poisson", "field": "k", "exposure": "e", "prior": {"shape": 3.0, "rate": 0.25}}
    rows = [[k, repr(e)] for k, e in zip(count.tolist(), exposure.tolist(), strict=True)]
    effective = float(_total([1] * n, weights))
    return Case(model, ["k", "e"], rows, np.array([shape, rate]), {"rate": moments}, effective)


def gaussian(n: int, seed: int = 1, centre: float = 3.0, weights: Weights = None) -> Case:
    """Normal-inverse-Wishart by sums of x and x x' (Murphy 2007, section 8)."""
    rng, d = np.random.default_rng(seed), 3
    x = rng.normal(size=(n, d)) @ np.array([[1, 0.4, 0], [0, 0.8, -0.3], [0.2, 0, 1.1]]) + [centre, -centre, centre]
    kappa0, dof0 = mp.mpf("0.5"), mp.mpf(7)
    with mp.workdps(50):
        sums, squares = _sums(x, weights)
        effective = _total([1] * n, weights)
        kappa, dof, raw = kappa0 + effective, dof0 + effective, mp.eye(d) + squares
        mean = sums / kappa
        scale = raw - kappa * mean * mean.T
        nu = dof - d
        spread = [
            [((nu + 1) * scale[i, j] ** 2 + (nu - 1) * scale[i, i] * scale[j, j]) / (nu * (nu - 1) ** 2 * (nu - 3))
             for j in range(d)] for i in range(d)
        ]  # fmt: skip
        cov = _array(scale / (nu - 1), d, d)
        located = {"mean": _array(mean), "sd": np.sqrt(cov.diagonal() / float(kappa)), "cov": cov / float(kappa)}
        spreads = {"mean": cov, "sd": np.sqrt(np.array(spread, dtype=float))}
        natural = np.concatenate([_array(sums), _array(raw), [float(kappa), float(dof)]])
    model = {"kind": "gaussian", "fields": ["u", "v", "w"], "prior": {"kappa": 0.5, "dof": 7.0}}
    rows = [[repr(v) for v in row] for row in x.tolist()]
    return Case(model, ["u", "v", "w"], rows, natural, {"mean": located, "cov": spreads}, float(effective))


def linear_regression(n: int, seed: int = 1, centre: float = 0.5, weights: Weights = None) -> Case:
    """Normal-inverse-Gamma by P = P0 + Z'Z (Bishop 2006, exercise 3.12)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ np.array([[1, 0.3], [-0.2, 0.9]])
    y = x @ [-2.0, 0.25] + 1.5 + 0.7 * rng.normal(size=n) + (0 if centre < 10 else centre)
    events = np.column_stack([x + centre, y])
    with mp.workdps(50):
        _, squares = _sums(np.column_stack([np.ones(n), events]), weights)
        precision = mp.diag([mp.mpf("0.5"), mp.mpf("0.25"), mp.mpf("0.25")]) + squares[:3, :3]
        linear = squares[:3, 3]
        mean = mp.lu_solve(precision, linear)
        shape, raw = mp.mpf(2) + squares[0, 0] / 2, mp.mpf("1.5") + squares[3, 3] / 2
        variance = (raw - (mean.T * linear)[0] / 2) / (shape - 1)
        cov = variance * precision**-1
        sd = np.array([float(mp.sqrt(cov[i, i])) for i in range(3)])
        located = {"mean": _array(mean), "sd": sd, "cov": _array(cov, 3, 3)}
        noise = {"mean": np.array(float(variance)), "sd": np.array(float(variance / mp.sqrt(shape - 2)))}
        natural = np.concatenate([_array(linear), _array(precision), [float(shape), float(raw)]])
    prior = {"precision": 0.25, "intercept_precision": 0.5, "shape": 2.0, "rate": 1.5}
    model = {"kind": "linear_regression", "features": ["a", "b"], "target": "t", "intercept": True, "prior": prior}
    rows = [[repr(v) for v in row] for row in events.tolist()]
    parameters = {"weights": located, "noise_variance": noise}
    return Case(model, ["a", "b", "t"], rows, natural, parameters, float(squares[0, 0]))


MODELS: dict[str, Callable[..., Case]] = {
    "bernoulli": bernoulli,
    "categorical": categorical,
    "poisson": poisson,
    "gaussian": gaussian,
    "linear_regression": linear_regression,
}


def _total(values: list[Any], weights: Weights) -> Any:
    with mp.workdps(50):
        return mp.fsum(values) if weights is None else mp.fdot(values, map(mp.mpf, weights.tolist()))


def _sums(x: np.ndarray, weights: Weights) -> tuple[Any, Any]:
    """sum w x (d,) and sum w x x' (d, d), exactly: the binary fractions of float64 have sums of few digits."""
    columns = [[mp.mpf(v) for v in column] for column in x.T.tolist()]
    weighted = columns
    if weights is not None:
        weighted = [[w * v for w, v in zip(map(mp.mpf, weights.tolist()), column, strict=True)] for column in columns]
    d = len(columns)
    squares = mp.matrix(d, d)
    for i in range(d):
        for j in range(i + 1):
            squares[i, j] = squares[j, i] = mp.fdot(columns[i], weighted[j])
    return mp.matrix([mp.fsum(column) for column in weighted]), squares


def _array(matrix: Any, *shape: int) -> np.ndarray:
    flat = np.array([float(v) for v in matrix])
    return flat.reshape(shape) if shape else flat
