"""Stein thinning: the indices that stein_thinning 0.2.0 chooses, and its pathologies without regularisation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import imq, thinning


def spread(n: int, d: int) -> np.ndarray:
    """Points that lie as those of a standard normal do, the same on every machine."""
    return np.asarray(ndtri((np.arange(1, n + 1)[:, None] * np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0])[:d]) % 1))


def two_modes(x: np.ndarray, share: float = 0.5, apart: float = 2.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log density, score and second derivatives by each coordinate of normals at -apart and apart, by the first."""
    logs = np.stack([-0.5 * (x[:, 0] + apart) ** 2 + np.log(share), -0.5 * (x[:, 0] - apart) ** 2 + np.log(1 - share)])
    total = np.logaddexp(*logs)
    left = np.exp(logs[0] - total)
    score = -x.copy()
    score[:, 0] = -(x[:, 0] + apart) * left - (x[:, 0] - apart) * (1 - left)
    bends = np.full(x.shape, -1.0)
    bends[:, 0] += 4 * apart**2 * left * (1 - left)
    return total - 0.5 * (x[:, 1:] ** 2).sum(axis=1), score, bends


def around_two(n: int) -> np.ndarray:
    x = spread(n, 2)
    x[:, 0] += np.where(np.arange(n) % 3 == 0, -2.5, 2.5)
    return x


def test_the_indices_of_stein_thinning() -> None:
    """By its defaults it divides coordinates by their mean absolute deviation."""
    x = 3 * spread(300, 1) + 1
    unit = np.abs(x - x.mean(axis=0)).mean(axis=0)
    assert thinning.plain(x / unit, -(x - 1) / 4 * unit, 20).tolist() == [
        203, 148, 299, 186, 141, 137, 97, 222, 143, 164, 117, 63, 195, 172, 12, 90, 217, 121, 202, 252,
    ]  # fmt: skip
    x = spread(500, 5) * np.arange(1, 6)
    assert thinning.plain(x, -x / np.arange(1, 6) ** 2, 20).tolist() == [
        348, 471, 150, 34, 408, 367, 5, 464, 483, 82, 46, 27, 273, 203, 116, 377, 244, 302, 360, 341,
    ]  # fmt: skip
    x = around_two(400)
    unit = np.abs(x - x.mean(axis=0)).mean(axis=0)
    assert thinning.plain(x / unit, two_modes(x)[1] * unit, 20).tolist() == [
        232, 87, 261, 278, 98, 22, 174, 92, 309, 322, 69, 258, 351, 207, 54, 108, 216, 234, 29, 27,
    ]  # fmt: skip


def test_the_regularised_choice_is_that_of_its_formula() -> None:
    """Every next draw minimises k(x, x) + bends(x) + 2 sum k(x, chosen) - t log p(x) / n, for the t-th of n."""
    x = around_two(60)
    logs, score, second = two_modes(x)
    bends = np.maximum(second, 0).sum(axis=1)
    found = thinning.regularised(x, score, logs, 15, bends)
    kernel = imq.pairs(x, score, x, score)
    chosen: list[int] = []
    for t in range(1, 16):
        cost = np.diag(kernel) + bends + 2 * kernel[:, chosen].sum(axis=1) - t * logs / 15
        chosen.append(int(cost.argmin()))
    assert found.tolist() == chosen


def test_the_plain_form_likes_the_saddle_between_modes_and_the_regularised_one_does_not() -> None:
    """The probability near the saddle is 1e-4, and 20 of 320 draws are there: warm-up on its way, say."""
    x = spread(300, 2) + np.where(np.arange(300) % 2 == 0, -4.0, 4.0)[:, None] * [1, 0]
    x = np.vstack([x, spread(20, 2) * [0.1, 1.0]])
    logs, score, second = two_modes(x, apart=4.0)
    is_saddle = np.abs(x[:, 0]) < 0.3
    assert is_saddle[thinning.plain(x, score, 60)].mean() > 0.03
    bends = np.maximum(second, 0).sum(axis=1)
    assert not is_saddle[thinning.regularised(x, score, logs, 60, bends)].any()


def test_the_plain_form_is_blind_to_the_size_of_modes_and_the_regularised_one_prefers_the_large_one() -> None:
    """Half of the draws are in a mode that has a fifth of the probability."""
    x = spread(600, 2) + np.where(np.arange(600) % 2 == 0, -3.0, 3.0)[:, None] * [1, 0]
    logs, score, second = two_modes(x, 0.2, apart=3.0)
    is_small = x[:, 0] < 0
    assert is_small[thinning.plain(x, score, 100)].mean() > 0.9
    assert is_small[thinning.regularised(x, score, logs, 100, np.maximum(second, 0).sum(axis=1))].mean() < 0.25


def test_warm_up_is_left_out() -> None:
    x = np.vstack([np.linspace(8, 3, 30)[:, None], spread(300, 1)])
    assert (thinning.plain(x, -x, 40) >= 30).all()


def test_what_cannot_be_told_says_why() -> None:
    x = spread(10, 1)
    with pytest.raises(Unknowable, match="Scores must be finite"):
        thinning.plain(x, x[:5], 3)
    with pytest.raises(Unknowable, match="Log densities must be finite"):
        thinning.regularised(x, -x, np.full(10, -np.inf), 3)
