"""Gibbs sampling of two numbers out of three, whose transition matrices are known for both scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Drawn
from streaminfer.sampling.kernels import gibbs
from streaminfer.sampling.randomness import Key

KEY = Key(9, "steps")
JOINT = np.array([[0.2, 0.05, 0.1], [0.02, 0.3, 0.08], [0.1, 0.05, 0.1]])


class Pair:
    """A latent number and theta, jointly JOINT[latent, theta]."""

    dimension, columns = 1, 1
    blocks = ("latent", "theta")

    def summary(self, rows: np.ndarray) -> None:
        return None

    def tempers(self, share: float) -> bool:
        return True

    def draw(
        self, block: str, at: Drawn, rows: np.ndarray, summary: Any, share: float, rng: np.random.Generator
    ) -> Drawn:
        if block == "latent":
            p = JOINT[:, int(at.theta[0])]
            return at._replace(latent=np.array([float(rng.choice(3, p=p / p.sum()))]))
        p = JOINT[int(at.latent[0])]
        return at._replace(theta=np.array([float(rng.choice(3, p=p / p.sum()))]))


def kernels() -> tuple[np.ndarray, np.ndarray]:
    """The transition matrices (9, 9) of drawing the latent number and of drawing theta; state (i, j) is 3 i + j."""
    latent, theta = np.zeros((9, 9)), np.zeros((9, 9))
    for i in range(3):
        for j in range(3):
            for k in range(3):
                latent[3 * i + j, 3 * k + j] = JOINT[k, j] / JOINT[:, j].sum()
                theta[3 * i + j, 3 * i + k] = JOINT[i, k] / JOINT[i].sum()
    return latent, theta


LATENT, THETA = kernels()
SYSTEMATIC, RANDOM = LATENT @ THETA, 0.5 * (LATENT @ THETA + THETA @ LATENT)
PI = JOINT.ravel()


def test_both_scans_keep_the_target_and_the_random_one_is_reversible() -> None:
    for T in (SYSTEMATIC, RANDOM):
        np.testing.assert_allclose(PI @ T, PI, atol=1e-15)
    flow, one_way = PI[:, None] * RANDOM, PI[:, None] * SYSTEMATIC
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    assert np.abs(one_way - one_way.T).max() > 0.01


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_steps_have_these_transitions(scan: gibbs.Scan) -> None:
    """Counts of 12,000 transitions from each state in turn, within 5.5 standard errors."""
    density, rng = Density(Pair(), np.zeros((1, 1))), KEY.generator(0)
    state = gibbs.init(density, np.array([0.0]), rng, scan)
    counts = np.zeros((9, 9)) if scan == "random" else np.zeros((3, 3))
    before = _number(state, scan)
    for _ in range(12_000):
        state, info = gibbs.step(density, state, rng, scan)
        counts[before, _number(state, scan)] += 1
        before = _number(state, scan)
        assert info.n_likelihood == 1
    T = RANDOM if scan == "random" else _marginal()
    n = counts.sum(axis=1, keepdims=True)
    z = (counts - n * T) / np.sqrt(n * T * (1 - T) + 1e-9)
    assert np.abs(z).max() < 5.5


def _number(state: gibbs.State, scan: str) -> int:
    if scan == "systematic":
        assert not len(state.latent)  # it begins with drawing them, so nothing of them is carried on
        return int(state.position[0])
    return 3 * int(state.latent[0]) + int(state.position[0])


def _marginal() -> np.ndarray:
    """Of theta alone by a systematic scan: the latent number given theta, then theta given that."""
    latent = (JOINT / JOINT.sum(axis=0)).T
    return latent @ (JOINT / JOINT.sum(axis=1, keepdims=True))


def test_blocks_of_scans_are_scans() -> None:
    density = Density(Pair(), np.zeros((1, 1)))
    start = gibbs.init(density, np.array([0.0]), KEY.generator(0), "random")
    state, rng, path = start, KEY.generator(1), []
    for _ in range(20):
        state, _ = gibbs.step(density, state, rng, "random")
        path.append(state.position)
    after, positions, info = gibbs.steps(density, start, KEY.generator(1), 20, "random")
    np.testing.assert_array_equal(positions, np.array(path))
    np.testing.assert_array_equal(after.latent, state.latent)
    assert info.n_likelihood == 20
