"""Decisions on subsets of real data: what they read, by each rule, and that the draws are right.

Also the example of Korattikara, Chen & Welling (2014) in which steps of sgld leave the mode and corrected ones do not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import mode, remainders
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import poisson_mh, sgld, subsampled_mh
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets.proxy import Proxy, plain, proxy
from streaminfer.spec import parse_spec
from tests.statistical.tables import table

KEY = Key(1, "steps")
BATCHES = 200


def events_of(name: str) -> tuple[list[str], np.ndarray]:
    if name == "MNIST":
        names, rows = table("sevens_and_nines.csv.gz")
        return names, rows[:12_214]
    names, rows = table("fertility.csv")
    return names[:-1], np.repeat(rows[:, :-1], rows[:, -1].astype(int), axis=0)


@cache
def world(name: str) -> tuple[Density, np.ndarray, np.ndarray]:
    """Its density, the mode, and the root of the Laplace covariance."""
    names, events = events_of(name)
    model = {"kind": "logistic_regression", "features": names[:-1], "target": names[-1]}
    target = parse_spec({"name": "real", "model": model, "inference": {"method": "mh"}}).target
    made = Density(target, np.ascontiguousarray(target.rows(events)))
    found = mode.find(made)
    assert found.curvature is not None
    return made, found.theta, preconditioning.mode(found.curvature).root


def proxy_of(name: str, order: int) -> Proxy:
    made, anchor, root = world(name)
    return proxy(made, remainders.expansion(made, anchor, order) if order else plain(made), root, bounded=True)


def part_read(name: str, rule: str, order: int, count: int) -> float:
    """By decisions where the posterior is."""
    made, anchor, root = world(name)
    by = subsampled_mh.subsets(proxy_of(name, order), Stopping(rule), 256)
    state = subsampled_mh.init(anchor + root @ KEY.generator(9).standard_normal(len(anchor)), root @ root.T)
    info = subsampled_mh.steps(by, state, KEY.generator(2), KEY.generator(3), count)[2]
    return info.n_read / (count * made.n)


@pytest.mark.long
def test_fertility_by_poisson_minibatches() -> None:
    """254,654 mothers: about one of them is read for a decision. The posterior is Gaussian to a hundredth."""
    made, anchor, root = world("Fertility")
    state = poisson_mh.init(anchor, root @ root.T)
    state, _, _ = poisson_mh.steps(proxy_of("Fertility", 2), state, KEY.generator(0), 2_000, adapting=True)
    _, path, info = poisson_mh.steps(proxy_of("Fertility", 2), state, KEY.generator(1), 400_000)
    assert made.n == 254_654
    assert info.n_read / info.n_proposed < 2
    assert 0.15 < info.n_accepted / info.n_proposed < 0.4
    white = (path - anchor) @ np.linalg.inv(root).T
    for power, expected in ((1, 0.0), (2, 1.0)):
        each = (white**power).reshape(BATCHES, -1, white.shape[1]).mean(axis=1)
        error = each.std(axis=0, ddof=1) / np.sqrt(BATCHES)
        assert (np.abs(each.mean(axis=0) - expected) < 0.05 * power + 5.5 * error).all()


@pytest.mark.long
def test_fertility_by_each_rule() -> None:
    found = {
        (rule, order): part_read("Fertility", rule, order, count)
        for rule, order, count in (
            ("t", 2, 60), ("bernstein_serfling", 2, 60), ("bernstein", 2, 60), ("hoeffding", 2, 40), ("t", 0, 40),
            ("bernstein_serfling", 0, 10),
        )
    }  # fmt: skip
    assert found["t", 2] <= found["bernstein_serfling", 2] < 0.01
    assert found["bernstein", 2] < 0.01
    assert found["hoeffding", 2] < 0.2
    assert 0.1 < found["t", 0] < 1
    assert found["bernstein_serfling", 0] == 1


@pytest.mark.long
def test_there_is_no_gain_on_images_of_raw_pixels() -> None:
    """Certified bounds are of the longest rows, and a few images are far from all others: everything is read."""
    made, anchor, root = world("MNIST")
    info = poisson_mh.steps(proxy_of("MNIST", 2), poisson_mh.init(anchor, root @ root.T), KEY.generator(0), 300)[2]
    assert info.n_read == 300 * made.n
    assert part_read("MNIST", "bernstein_serfling", 2, 40) == 1


class Sparse:
    """y ~ N(theta x, 1 / 3) with a Laplace prior that almost outweighs the data: a kink beside the mode."""

    dimension, columns, precision, rate = 1, 2, 3.0, 4950.0

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return -0.5 * self.precision * (rows[:, 1] - theta * rows[:, 0]) ** 2

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        x, y = rows.T
        return np.array(self.precision * (x @ y - theta * (x @ x)))

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -self.rate * np.abs(theta[:, 0])

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -self.rate * np.sign(theta)


@pytest.mark.long
def test_corrected_steps_stay_where_plain_ones_leave_the_mode() -> None:
    """10,000 pairs, minibatches of 500, steps of 5e-6: left of the kink a gradient throws the chain far away."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 10_000)
    target: Any = Sparse()
    made = Density(target, np.column_stack([x, 0.5 * x + rng.standard_normal(10_000) / np.sqrt(3)]))
    grid = np.linspace(-0.05, 0.1, 4001)
    logs = made.log_density(grid[:, None])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    true = float(weights @ grid)
    moving = Dynamics(Gradients(made), Random(10_000, 500), Schedule(5e-6), preconditioning.none(1))
    start = sgld.init(np.array([true]))
    plain_path = sgld.steps(moving, start, KEY.generator(0), 20_000)[1].positions[:, 0]
    by = subsampled_mh.subsets(proxy(made, plain(made), np.empty((0, 0)), bounded=False), Stopping("t", 0.05), 500)
    corrected, info, _ = sgld.corrected(moving, by, start, KEY.generator(1), KEY.generator(2), 8_000)[1:]
    path = corrected.positions[:, 0]
    off = abs(plain_path.mean() - true)
    deviation = float(np.sqrt(weights @ (grid - true) ** 2))
    assert off > 0.3 * deviation
    assert abs(path.mean() - true) < 0.3 * off
    assert path.max() < plain_path.max()
    assert info.n_gradient == 2 * 8_000 * 500
