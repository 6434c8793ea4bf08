"""Compiled blocks have the numbers of those without numba, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import mode
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning, tuning
from streaminfer.sampling.gradients.estimates import Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Minibatches, Random, Shuffled
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import compiled, fast, sghmc, sgld, sgnht
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from tests.models.targets.cases import ALL, case

KEY = Key(6, "steps")
NAMES = ["logistic", "skewed-probit", "diagonal-logistic"]


def density(name: str) -> Density:
    made = case(next(example for example in ALL if example.name == name), n=301)
    return Density(made.target, made.rows, 0.5)


def started(method: Any, made: Dynamics, position: np.ndarray) -> Any:
    if method is sgld:
        return sgld.init(position)
    if method is sghmc:
        return sghmc.init(position, made.preconditioner, KEY.generator(100))
    return sgnht.init(position, KEY.generator(100))


def run(method: Any, made: Dynamics, position: np.ndarray) -> tuple[Any, list[np.ndarray]]:
    state, positions = started(method, made, position), []
    for block in range(3):
        state, found, _ = method.steps(made, state, KEY.generator(block), 40)
        positions.append(found.positions)
    return state, positions


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", [sgld, sghmc, sgnht], ids=["sgld", "sghmc", "sgnht"])
@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("by", ["mode", "diagonal"])
def test_the_same_numbers_without_numba(
    name: str, method: Any, controlled: bool, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = density(name)
    found = mode.find(made)
    assert found.curvature is not None
    chosen = preconditioning.mode(found.curvature)
    if by == "diagonal":
        chosen = preconditioning.Preconditioner(chosen.matrix.diagonal().copy(), np.sqrt(chosen.matrix.diagonal()))
    gradients = Gradients(made, anchor(made, found.theta) if controlled else None)
    minibatches: Minibatches = Shuffled(made.n, 30, KEY) if controlled else Random(made.n, 30)
    dynamics = Dynamics(gradients, minibatches, Schedule(0.1, 50, 0.5, 0.01), chosen)
    assert fast.given(gradients) is not None
    start = tuning.start(found, chosen, KEY.generator(99))
    state, positions = run(method, dynamics, start)
    monkeypatch.setattr(fast, "loops", lambda: None)
    assert fast.given(gradients) is None
    plain, expected = run(method, dynamics, start)
    np.testing.assert_allclose(np.concatenate(positions), np.concatenate(expected), rtol=1e-9, atol=1e-11)
    for mine, other in zip(state, plain, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("method", [sgld, sghmc, sgnht], ids=["sgld", "sghmc", "sgnht"])
def test_undone_steps_are_the_same_without_numba(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row without a gradient undoes the steps that meet it, and no others."""
    made = density("logistic")
    rows = made.rows.copy()
    rows[17] = np.nan
    broken = Density(made.target, rows)
    dynamics = Dynamics(Gradients(broken), Random(made.n, 20), Schedule(0.5), preconditioning.none(3))
    counts = []
    for loops in (fast.loops(), None):
        monkeypatch.setattr(fast, "loops", lambda loops=loops: loops)
        state = started(method, dynamics, np.full(3, 0.1))
        state, block, info = method.steps(dynamics, state, KEY.generator(0), 200)
        assert np.isfinite(block.positions).all()
        counts.append((info.n_undone, state.undone))
    assert counts[0] == counts[1]
    met = (Random(made.n, 20).indices(KEY.generator(0), 0, 200) == 17).any(axis=1)
    assert counts[0][0] == met.sum() > 0


@pytest.mark.parametrize("name", NAMES)
def test_compiled_slopes_are_those_of_the_links(name: str) -> None:
    target = density(name).target
    z = np.concatenate([np.linspace(-45, 45, 1001), [-1e4, -1e8, 600.0, 1e3, 1e5]])
    found = [compiled.slope(target.link_code, each) for each in z]
    np.testing.assert_allclose(found, target.slope(z), rtol=1e-12, atol=1e-290)


def test_a_target_without_margins_has_no_compiled_loop() -> None:
    assert fast.given(Gradients(density("count"))) is None


def test_rows_of_a_mapped_file_are_read_where_they_are(tmp_path: Any) -> None:
    made = density("logistic")
    path = tmp_path / "rows"
    np.asarray(made.rows).tofile(path)
    mapped = np.memmap(path, dtype=np.float64, mode="c").reshape(made.rows.shape)
    given = fast.given(Gradients(Density(made.target, mapped)))
    assert given is not None
    assert np.shares_memory(given.rows, mapped)
    results = []
    for rows in (made.rows, mapped):
        dynamics = Dynamics(
            Gradients(Density(made.target, rows)), Random(made.n, 20), Schedule(0.1), preconditioning.none(3)
        )
        results.append(sgld.steps(dynamics, sgld.init(np.zeros(3)), KEY.generator(0), 10)[1].positions)
    np.testing.assert_array_equal(*results)
