"""A combined posterior made again by someone outside: from the draws and the data on the bus and what a snapshot says.

Nothing of the program computes here. The formulas are those of the documents: weighted averages with full weights on
the unconstrained scale, and importance weights of proposals from a t distribution. The model is a linear regression
without intercept: theta = (weights, log s2), w ~ N(0, s2), s2 ~ inverse Gamma(1, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from numpy.typing import NDArray

from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.shown import Part, Shown
from streaminfer.variational.snapshot import Snapshot

Array = NDArray[np.float64]
PROPOSALS, FREEDOM = 10_000, 10


class Made(NamedTuple):
    """Mean and sd of the parameters as they are published, and what the importance weights say."""

    mean: Array
    sd: Array
    k_hat: float | None
    log_evidence: float | None


@dataclass
class Outside:
    """Whoever reads all draws as they come, and the rows of the data: features, then the target."""

    subposteriors: int
    chains: int
    seed: int
    window: int
    corrects: bool
    _blocks: dict[tuple[int, int], dict[int, Draws]] = field(default_factory=dict)
    """By unit and segment, then by the step at which they begin."""
    _rows: dict[tuple[int, int], Sequence[float]] = field(default_factory=dict)
    """By partition and offset: a log has offsets that are no rows."""

    def add_row(self, partition: int, offset: int, row: Sequence[float]) -> None:
        self._rows[partition, offset] = row

    def take(self, unit: int, draws: Draws) -> None:
        held = self._blocks.setdefault((unit, draws.segment), {})
        if draws.begin == draws.end:
            return  # it says that the segment has begun
        assert draws.begin not in held, f"doubled: unit {unit}, segment {draws.segment}, step {draws.begin}"
        held[draws.begin] = draws

    def made(self, snapshot: Snapshot) -> Made:
        """What a snapshot should show."""
        assert snapshot.payload.sampled is not None
        shown = snapshot.payload.sampled.shown
        combined = shown.combined
        assert combined is not None
        found = [self._part(each) for each in shown.subposteriors]
        rng = _generator(f"{self.seed}/0/{combined.round}/combine")
        thetas, mean, cov = _averaged(found, [each.n_effective for each in shown.subposteriors], self.window, rng)
        if not self.corrects:
            return _told(thetas, np.full(len(thetas), 1 / len(thetas)), None, None)
        theta, log_q = _proposed(mean, cov, rng)
        ratios = _log_prior(theta) + self._log_likelihood(theta, shown) - log_q
        logs, k_hat = array_stats.psislw(-ratios)
        weights = np.exp(logs - logs.max())
        evidence = ratios.max() + math.log(np.exp(ratios - ratios.max()).mean())
        if k_hat > min(0.7, 1 - 1 / math.log10(PROPOSALS)):
            return _told(thetas, np.full(len(thetas), 1 / len(thetas)), float(k_hat), None)
        return _told(theta, weights / weights.sum(), float(k_hat), evidence)

    def _part(self, part: Part) -> Array:
        """The newest draws of a segment up to the steps that are named, (T, d); of one under way the last halves."""
        chains, done = [], True
        for chain, end in enumerate(part.steps):
            held = self._blocks[part.subposterior + chain * self.subposteriors, part.segment]
            step, blocks = 0, []
            while step < end:
                blocks.append(held[step])
                step = blocks[-1].end
            assert step == end
            done = done and blocks[-1].phase == "done"
            chains.append(np.concatenate([each.values for each in blocks]))
        most = math.ceil(self.window / self.chains)
        used = [(each if done else each[len(each) // 2 :])[-most:] for each in chains]
        values = np.concatenate(used)
        assert len(values) == part.n_draws
        return np.column_stack([values[:, :-1], np.log(values[:, -1])])

    def _log_likelihood(self, theta: Array, shown: Shown) -> Array:
        """Of all events of the segments that are combined."""
        total = np.zeros(len(theta))
        for part in shown.subposteriors:
            first = self._blocks[part.subposterior, part.segment][0]  # of its chain 0, from step 0 on
            for span in first.frontier:
                places = [(span.partition, offset) for offset in range(span.start, span.end)]
                rows = np.array([self._rows[place] for place in places if place in self._rows])
                away = rows[:, -1] - theta[:, :-1] @ rows[:, :-1].T
                t = theta[:, -1]
                total += -0.5 * len(rows) * (math.log(2 * math.pi) + t) - 0.5 * np.exp(-t) * (away**2).sum(axis=1)
        return total


def _generator(name: str) -> np.random.Generator:
    key = np.frombuffer(blake2b(name.encode(), digest_size=16).digest(), dtype="<u8")
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, 0]))


def _averaged(
    parts: Sequence[Array], effective: Sequence[float], n: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """n averages, and mean and covariance of the weighted sum. W_j = (sum_i P_i)^-1 P_j."""
    precisions = []
    for theta, worth in zip(parts, effective, strict=True):
        total, d = theta.shape
        t = min(worth, total)
        precisions.append((t - d - 2) / (t - 1) * np.linalg.inv(np.cov(theta.T)))
    whole = np.linalg.inv(np.sum(precisions, axis=0))
    draws, mean, cov = np.zeros((n, len(whole))), np.zeros(len(whole)), np.zeros(whole.shape)
    for theta, precision in zip(parts, precisions, strict=True):
        w, total = whole @ precision, len(theta)
        which = np.arange(n)
        if n < total:
            which = np.arange(n) * total // n
        elif n > total:
            which = rng.integers(0, total, n)
        draws += theta[which] @ w.T
        mean += w @ theta.mean(axis=0)
        cov += w @ np.cov(theta.T) @ w.T
    return draws, mean, cov


def _proposed(mean: Array, cov: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draws of a multivariate t, and their log densities."""
    d = len(mean)
    normal = rng.standard_normal((PROPOSALS, d))
    white = normal / np.sqrt(rng.chisquare(FREEDOM, PROPOSALS) / FREEDOM)[:, None]
    root = np.linalg.cholesky(cov)
    log_q = math.lgamma((FREEDOM + d) / 2) - math.lgamma(FREEDOM / 2) - d / 2 * math.log(FREEDOM * math.pi)
    log_q -= np.log(np.diag(root)).sum()
    return mean + white @ root.T, log_q - (FREEDOM + d) / 2 * np.log1p((white**2).sum(axis=1) / FREEDOM)


def _log_prior(theta: Array) -> Array:
    """Of the weights given s2, and of log s2: the density of s2 times s2."""
    w, t = theta[:, :-1], theta[:, -1]
    d = w.shape[1]
    weights = -0.5 * d * (math.log(2 * math.pi) + t) - 0.5 * np.exp(-t) * (w**2).sum(axis=1)
    return weights - 2 * t - np.exp(-t) + t


def _told(theta: Array, weights: Array, k_hat: float | None, evidence: float | None) -> Made:
    values = np.column_stack([theta[:, :-1], np.exp(theta[:, -1])])
    mean = weights @ values
    return Made(mean, np.sqrt(weights @ (values - mean) ** 2), k_hat, evidence)
