"""Batch posteriors by their textbook formulas in 50 digits: the oracle of the centred statistics."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 50


def linear_regression(model: Any, events: np.ndarray) -> dict[str, np.ndarray]:
    """Normal-inverse-Gamma by P = P0 + Z'Z: mean and sd of the weights, noise variance, natural parameters."""
    with mp.workdps(DIGITS):
        n = len(events)
        ones = [[mp.mpf(1)] * model.intercept + [mp.mpf(v) for v in row[:-1]] for row in events.tolist()]
        design, target = mp.matrix(ones), mp.matrix([mp.mpf(v) for v in events[:, -1].tolist()])
        prior_precision = mp.diag([mp.mpf(v) for v in model.weights_precision])
        prior_mean = mp.matrix([mp.mpf(v) for v in model.weights_mean])
        precision = prior_precision + design.T * design
        linear = prior_precision * prior_mean + design.T * target
        mean = mp.lu_solve(precision, linear)
        shape = mp.mpf(model.shape) + mp.mpf(n) / 2
        raw = model.rate + ((target.T * target)[0] + (prior_mean.T * prior_precision * prior_mean)[0]) / 2
        rate = raw - (mean.T * linear)[0] / 2
        variance = rate / (shape - 1)
        inverse = precision**-1
        log_z = [
            mp.loggamma(a) - a * mp.log(b) - mp.log(mp.det(p)) / 2
            for a, b, p in [(shape, rate, precision), (mp.mpf(model.shape), mp.mpf(model.rate), prior_precision)]
        ]
        return {
            "weights": _array(mean),
            "sd": np.array([float(mp.sqrt(variance * inverse[i, i])) for i in range(len(mean))]),
            "cov": _array(variance * inverse).reshape(len(mean), len(mean)),
            "noise_variance": np.array(float(variance)),
            "natural": np.concatenate([_array(linear), _array(precision), [float(shape), float(raw)]]),
            "log_evidence": np.array(float(log_z[0] - log_z[1] - n * mp.log(2 * mp.pi) / 2)),
        }


def gaussian(model: Any, events: np.ndarray) -> dict[str, np.ndarray]:
    """Normal-inverse-Wishart by sums of x and x x': means and sds, natural parameters."""
    with mp.workdps(DIGITS):
        n, d = events.shape
        x, m0 = mp.matrix(events.tolist()), mp.matrix([mp.mpf(v) for v in model.mean])
        kappa0 = mp.mpf(model.kappa)
        prior_scale = mp.diag([mp.mpf(v) for v in model.scale_diagonal])
        kappa, dof = kappa0 + n, mp.mpf(model.dof) + n
        linear = kappa0 * m0 + x.T * mp.matrix([1] * n)
        raw = prior_scale + x.T * x + kappa0 * m0 * m0.T
        mean = linear / kappa
        scale = raw - kappa * mean * mean.T
        cov = scale / (dof - d - 1)
        log_z = [
            _log_multigamma(v / 2, d) + v * d / 2 * mp.log(2) - v / 2 * mp.log(mp.det(s)) - d * mp.log(k) / 2
            for v, s, k in [(dof, scale, kappa), (mp.mpf(model.dof), prior_scale, kappa0)]
        ]
        return {
            "mean": _array(mean),
            "sd": np.array([float(mp.sqrt(cov[i, i] / kappa)) for i in range(d)]),
            "cov": _array(cov).reshape(d, d),
            "natural": np.concatenate([_array(linear), _array(raw), [float(kappa), float(dof)]]),
            "log_evidence": np.array(float(log_z[0] - log_z[1] - n * d * mp.log(2 * mp.pi) / 2)),
        }


def _log_multigamma(a: Any, d: int) -> Any:
    return d * (d - 1) / mp.mpf(4) * mp.log(mp.pi) + sum(mp.loggamma(a - mp.mpf(j) / 2) for j in range(d))


def _array(matrix: Any) -> np.ndarray:
    return np.array([float(v) for v in matrix])
