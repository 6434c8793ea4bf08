"""Firefly Monte Carlo on MNIST, 7 against 9: what its steps read, what that is worth, and that the draws are right."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from streaminfer.sampling.chains import firefly
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import flymc, mala, mh
from streaminfer.sampling.pooled import effective
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import BoundRule
from tests.statistical.test_real_subsets import world

KEY = Key(3, "steps")
WARMUP, STEPS = 10_000, 100_000
UNTUNED_STEPS, PLAIN_STEPS, GRADIENT_STEPS = 300, 12_000, 20_000
BATCHES, ROOM = 20, 8.0
"""Of chains whose draws are compared: each is several times as long as a chain remembers. So they are few, and
their errors are uncertain: 8 of them are what 5.5 normal ones are."""


class Taken(NamedTuple):
    """Whitened positions (n, d) of a chain, likelihoods of single events a step, and those of its set-up."""

    path: np.ndarray
    queries: float
    n_setup: int

    @property
    def worth(self) -> float:
        """Effective draws, mean over the whitened weights, for a million likelihoods."""
        return 1e6 * float(effective.by_coordinate([self.path]).mean()) / (self.queries * len(self.path))


def white(path: np.ndarray) -> np.ndarray:
    _, anchor, root = world("MNIST")
    return (path - anchor) @ np.linalg.inv(root).T


def flown(tune: str, warmup: int, count: int) -> Taken:
    made, anchor, root = world("MNIST")
    rule = BoundRule(tune, 1.5 if tune == "none" else None, "implicit", None)
    numbers, n_setup = firefly.measured(made, rule, anchor, root, KEY)
    bounds, update = firefly.restored(made, rule, anchor, numbers), flymc.Update("implicit", float(numbers[0]))
    by = Preconditioner(root @ root.T, root)
    state = flymc.init(made, bounds, anchor, 1.0, KEY.generator(0), by.matrix)
    state, _, _ = flymc.steps(made, bounds, state, KEY.generator(1), warmup, update, by, True, None, False)
    _, path, info = flymc.steps(made, bounds, state, KEY.generator(2), count, update, by)
    return Taken(white(path), info.n_likelihood / count, n_setup + made.n)


@cache
def tuned() -> Taken:
    return flown("mode", WARMUP, STEPS)


@cache
def plain() -> Taken:
    """By the Laplace covariance, as flymc has it: steps of 2.38 / sqrt(d) of it."""
    made, anchor, root = world("MNIST")
    state = mh.init(made, anchor, root @ root.T)
    _, path, info = mh.steps(made, state, KEY.generator(5), PLAIN_STEPS)
    return Taken(white(path), info.n_likelihood / PLAIN_STEPS, 0)


@pytest.mark.long
def test_bounds_at_the_mode_read_little_and_others_about_half() -> None:
    """The set-up, the bounds' and that of the first brightness, is apart: some passes over all images."""
    untuned = flown("none", 100, UNTUNED_STEPS)
    assert tuned().queries < 500
    assert 3_000 < untuned.queries < 10_000
    assert plain().queries == 12_214
    assert 2 * 12_214 <= tuned().n_setup <= 8 * 12_214


@pytest.mark.long
def test_a_likelihood_is_worth_more_than_in_plain_steps() -> None:
    """A step moves less, as the bright events stay for a while, and is far cheaper."""
    assert tuned().worth > 2 * plain().worth


def by_gradients() -> np.ndarray:
    """Whitened draws of mala."""
    made, anchor, root = world("MNIST")
    by = Preconditioner(root @ root.T, root)
    state = mala.init(made, anchor, len(anchor) ** (-1 / 3))
    state, _, _ = mala.steps(made, state, KEY.generator(6), GRADIENT_STEPS // 10, by, True)
    return white(mala.steps(made, state, KEY.generator(7), GRADIENT_STEPS, by)[1])


@pytest.mark.long
def test_the_draws_are_those_of_exact_steps() -> None:
    paths = (tuned().path, by_gradients())
    for power in (1, 2):
        found = [(path**power).reshape(BATCHES, -1, path.shape[1]).mean(axis=1) for path in paths]
        error = np.sqrt(sum(each.var(axis=0, ddof=1) for each in found) / BATCHES)
        assert (np.abs(found[0].mean(axis=0) - found[1].mean(axis=0)) < 0.05 * power + ROOM * error).all()
