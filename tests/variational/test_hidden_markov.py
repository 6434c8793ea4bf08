"""The hidden Markov chain against enumeration of all its paths."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy import special

from streaminfer.families import dirichlet
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.variational import hidden_markov as markov
from tests.models.examples import build

PRIOR = niw.Parameters(np.zeros(1), 0.2, 4.0, np.eye(1))


def model(k: int) -> markov.Chain:
    return markov.Chain(np.linspace(0.8, 1.5, k), 0.6 + np.arange(k * k).reshape(k, k) / 7 + 2 * np.eye(k), PRIOR)


def draw(n: int, spread: float = 1.0) -> np.ndarray:
    """Two states that last for about ten events."""
    rng = np.random.default_rng(1)
    states = np.cumsum(rng.random(n) < 0.1) % 2
    return (np.where(states, 1.5, -1.5) + spread * rng.normal(size=n))[:, None]


def random_logs(n: int, k: int, size: float) -> markov.Logs:
    rng = np.random.default_rng(2)
    return markov.Logs(*(size * rng.normal(size=shape) for shape in ((k,), (k, k), (n, k))))


def path_scores(logs: markov.Logs) -> tuple[np.ndarray, np.ndarray]:
    """Every path (K^n, n), and the log of its weight."""
    n, k = logs.densities.shape
    paths = np.array(list(product(range(k), repeat=n)))
    moves = logs.transitions[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return paths, logs.start[paths[:, 0]] + moves + logs.densities[np.arange(n), paths].sum(axis=1)


def assert_enumerated(logs: markov.Logs, states: markov.States, log_normaliser: float) -> None:
    paths, scores = path_scores(logs)
    shares = special.softmax(scores)
    one_hot = np.eye(logs.densities.shape[1])[paths]
    np.testing.assert_allclose(states.marginals, np.einsum("p,ptk->tk", shares, one_hot), rtol=1e-10, atol=1e-14)
    pairs = np.einsum("p,ptj,ptk->tjk", shares, one_hot[:, :-1], one_hot[:, 1:])
    np.testing.assert_allclose(states.pairs, pairs, rtol=1e-10, atol=1e-14)
    assert log_normaliser == pytest.approx(special.logsumexp(scores), rel=1e-12)


@pytest.mark.parametrize(("n", "k"), [(1, 3), (2, 2), (6, 3)])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_forward_backward_equals_all_paths(n: int, k: int, size: float) -> None:
    logs = random_logs(n, k, size)
    assert_enumerated(logs, *markov.forward_backward(logs))


def test_transitions_the_wrong_way_and_forward_alone_are_found() -> None:
    logs = random_logs(5, 3, 1.0)
    states, log_normaliser = markov.forward_backward(logs._replace(transitions=logs.transitions.T))
    with pytest.raises(AssertionError):
        assert_enumerated(logs, states, log_normaliser)
    filtered = [markov.forward_backward(logs._replace(densities=logs.densities[: t + 1]))[0] for t in range(5)]
    marginals = np.stack([each.marginals[-1] for each in filtered])
    states, log_normaliser = markov.forward_backward(logs)
    with pytest.raises(AssertionError):
        assert_enumerated(logs, states._replace(marginals=marginals), log_normaliser)


def test_long_chains_and_unlikely_events_do_not_underflow() -> None:
    logs = markov.expected_logs(markov.fit(model(2), draw(50), rounds=3).beliefs, np.vstack([draw(3000), [[1e8]]]))
    states, log_normaliser = markov.forward_backward(logs)
    np.testing.assert_allclose(states.marginals.sum(axis=1), 1, rtol=1e-9)
    assert np.isfinite(log_normaliser)


class Posterior(NamedTuple):
    """Given one path: log p(x, z), and the parameters' posterior."""

    log_joint: float
    weights: list[np.ndarray]
    emissions: list[niw.Parameters]


def given_path(of: markov.Chain, events: np.ndarray, z: np.ndarray) -> Posterior:
    """By the conjugate models."""
    k = len(of.start)
    prior = {"kappa": PRIOR.kappa, "dof": PRIOR.dof}
    gaussian = build("gaussian", fields=["u"], prior=prior)
    groups = [events[z == i] for i in range(k)]
    each = [gaussian.posterior(gaussian.statistics(g) if len(g) else gaussian.empty()) for g in groups]
    counts = np.zeros((k, k))
    np.add.at(counts, (z[:-1], z[1:]), 1)
    before = [of.start, *of.transitions]
    after = [of.start + np.eye(k)[z[0]], *(of.transitions + counts)]
    change = sum(dirichlet.log_partition(a) - dirichlet.log_partition(b) for a, b in zip(after, before, strict=True))
    return Posterior(change + sum(one.log_evidence() for one in each), after, [one.parameters for one in each])


def gap(of: markov.Chain, events: np.ndarray, beliefs: markov.Beliefs, log_shares: np.ndarray) -> tuple[float, float]:
    """log p(x), and KL(q(z) q(parameters) || p(z, parameters | x)) with q(z) given path by path."""
    paths = np.array(list(product(range(len(of.start)), repeat=len(events))))
    exact = [given_path(of, events, z) for z in paths]
    evidence = float(special.logsumexp([each.log_joint for each in exact]))
    total, weights = 0.0, [beliefs.start, *beliefs.transitions]
    for log_share, (log_joint, after, emissions) in zip(log_shares, exact, strict=True):
        apart = sum(dirichlet.kl(*map(dirichlet.Parameters, pair)) for pair in zip(weights, after, strict=True))
        apart += sum(niw.kl(beliefs.emissions.one(k), other) for k, other in enumerate(emissions))
        total += np.exp(log_share) * (log_share - (log_joint - evidence) + apart)
    return evidence, float(total)


@pytest.mark.parametrize("structured", [True, False])
def test_the_bound_and_the_divergence_make_the_evidence(structured: bool) -> None:
    of, events = model(2), draw(6)
    found = markov.fit(of, events, structured, rounds=4)
    logs = markov.expected_logs(found.beliefs, events)
    states = markov.forward_backward(logs)[0] if structured else found.states
    paths, scores = path_scores(logs)
    log_shares = special.log_softmax(scores)
    if not structured:
        log_shares = np.log(states.marginals[np.arange(6), paths]).sum(axis=1)
    evidence, apart = gap(of, events, found.beliefs, log_shares)
    assert apart > 0
    assert markov.elbo(of, found.beliefs, states, events) + apart == pytest.approx(evidence, rel=1e-9)


def test_the_bound_of_the_best_states_is_the_normaliser_without_the_divergence() -> None:
    of, events = model(3), draw(40)
    beliefs = markov.fit(of, events, rounds=2).beliefs
    states, log_normaliser = markov.forward_backward(markov.expected_logs(beliefs, events))
    bound = markov.elbo(of, beliefs, states, events)
    assert bound == pytest.approx(log_normaliser - markov.divergence(of, beliefs), rel=1e-10)
    one = markov.forward_backward(markov.expected_logs(beliefs, events[:1]))
    bound = markov.elbo(of, beliefs, one[0], events[:1])
    assert bound == pytest.approx(one[1] - markov.divergence(of, beliefs), rel=1e-10)


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize(("n", "k"), [(120, 2), (60, 4), (3, 2), (1, 2)])
def test_the_bound_never_falls(structured: bool, n: int, k: int) -> None:
    found = markov.fit(model(k), draw(n), structured, rounds=30).bounds
    assert (np.diff(found) >= -1e-8 * np.abs(found[1:])).all()


@pytest.mark.parametrize(("spread", "gain"), [(0.5, 0.0), (1.0, 0.02), (2.0, 0.5)])
def test_the_structured_bound_is_the_better_one(spread: float, gain: float) -> None:
    """From the end of the naive one it rises, the more the less events tell their states; so from a common start."""
    of, events = model(2), draw(80, spread)
    naive = markov.fit(of, events, structured=False, rounds=30)
    onwards = markov.fit(of, events, rounds=1, beliefs=naive.beliefs)
    assert onwards.bounds[0] > naive.bounds[-1] + gain
    assert markov.fit(of, events, rounds=30).bounds[-1] > naive.bounds[-1] + gain


def test_separated_states_are_recovered() -> None:
    """States 30 standard deviations apart: all but certain, and the transitions are counted."""
    rng = np.random.default_rng(3)
    z = np.cumsum(rng.random(200) < 0.2) % 2
    found = markov.fit(model(2), np.where(z, 15.0, -15.0)[:, None] + rng.normal(size=(200, 1)))
    first = int(found.states.marginals[np.flatnonzero(z == 0)[0]].argmax())
    order = [first, 1 - first]
    np.testing.assert_allclose(found.states.marginals[:, order], np.eye(2)[z], atol=1e-9)
    counts = np.zeros((2, 2))
    np.add.at(counts, (z[:-1], z[1:]), 1)
    prior = model(2).transitions
    np.testing.assert_allclose(found.beliefs.transitions[order][:, order], prior[order][:, order] + counts, atol=1e-6)
