from __future__ import annotations

import numpy as np

from streaminfer.sampling.gradients.schedule import Schedule


def test_constant_steps_stay() -> None:
    np.testing.assert_array_equal(Schedule(0.3).sizes(10**6, 3), 0.3)


def test_falling_steps_fall_to_their_floor() -> None:
    sizes = Schedule(0.5, after=10, power=0.55, floor=0.05).sizes(0, 2000)
    np.testing.assert_allclose(sizes[:2], [0.5, 0.5 * 1.1**-0.55])
    assert sizes[-1] == 0.05
    assert (np.diff(sizes) <= 0).all()
    np.testing.assert_array_equal(Schedule(0.5, 10, 0.55, 0.05).sizes(700, 5), sizes[700:705])
